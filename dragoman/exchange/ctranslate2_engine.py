"""A `Translator` that searches with CTranslate2: the same texts, settings and results, at its speed on a CPU.

Dragoman splits texts, orders them, and computes flags and n-best lists. CTranslate2 runs the model and the beam search.
It ends some searches earlier than Dragoman, and it gives no probabilities of single tokens (`token_log_probs` are
empty).

`dragoman translate --engine ctranslate2` uses this module, through `workflows/models.py`. The model is exported to a
temporary folder at each start, so a stored export is not needed and cannot be out of date.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.devices.threads import num_cpu_threads
from dragoman.errors import ConfigError
from dragoman.exchange.ctranslate2_check import SUPPRESSED
from dragoman.exchange.ctranslate2_export import Quantization, build_specification, import_ctranslate2
from dragoman.exchange.tokens import tokens_of
from dragoman.inference.output_rules import length_penalties, output_limit
from dragoman.inference.segments import Source, token_batches
from dragoman.inference.translator import Translator
from dragoman.records import Hypothesis

# `auto` is int8, because the reason to choose this engine is speed on a CPU.
_COMPUTE_TYPES: dict[str, Quantization] = {"float32": "float32", "int8": "int8", "auto": "int8"}


def ctranslate2_translator(trained: Model, precision: str, threads: int | None = None) -> Translator:
    """Convert a model through a temporary folder and return a translator that searches with CTranslate2.

    Parameters
    ----------
    trained
        The model, of any kind.
    precision
        A value of `inference.precision`: float32, int8, or auto, which means int8.
    threads
        The number of batches to search at once, on one core each. By default, torch's number of threads.

    Raises
    ------
    ConfigError
        If CTranslate2 does not support `precision` on a CPU (bfloat16).
    ModelError
        If ctranslate2 is not installed.
    """
    if precision not in _COMPUTE_TYPES:
        raise ConfigError(
            f"`--inference.precision` is {precision}, which ctranslate2 does not support on a CPU. Use int8 or float32."
        )
    engine = _Engine(trained, _COMPUTE_TYPES[precision], threads or num_cpu_threads())
    return Translator.from_models([trained], search=engine)


class _Engine:
    """The search of a Translator: a callable from sources and settings to hypotheses.

    Tokens cross the boundary as strings, because CTranslate2's Python interface takes no ids.
    """

    def __init__(self, trained: Model, compute_type: Quantization, threads: int) -> None:
        self._threads = threads
        self._src_names, self._tgt_names = tokens_of(trained.tokenizers.src), tokens_of(trained.tokenizers.tgt)
        self._tgt_ids = {name: index for index, name in enumerate(self._tgt_names)}
        self._max_length = trained.weights.max_positions
        with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
            build_specification(trained, compute_type).save(folder)
            self._translator = import_ctranslate2().Translator(
                folder, device="cpu", compute_type=compute_type, inter_threads=threads, intra_threads=1
            )

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """The hypotheses of every source, at most `settings.n_best` each, finished ones first and best first.

        Raises ConfigError if `settings.sample` is set.
        """
        if settings.sample:
            raise ConfigError(
                "`--inference.sample` does not work with `--engine ctranslate2`. Leave out one of the two."
            )
        limits = [output_limit(one.length, len(one.prefix), settings, self._max_length) for one in sources]
        batches = list(token_batches(sources, settings.beam_size, settings.batch_tokens, self._threads))
        # All batches are submitted before the first result is read, so that every thread has work.
        pending = [
            self._submit([sources[place] for place in batch], max(limits[place] for place in batch), settings)
            for batch in batches
        ]
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch, results in zip(batches, pending, strict=True):
            for place, result in zip(batch, results, strict=True):
                answer = result.result()
                hypotheses = [
                    self._hypothesis(tokens, score, limits[place], settings)
                    for tokens, score in zip(answer.hypotheses, answer.scores, strict=True)
                ]
                hypotheses.sort(key=lambda one: (not one.finished, -one.score))
                found[place] = hypotheses[: settings.n_best]
        return found

    def _submit(self, batch: Sequence[Source], longest: int, settings: InferenceSettings) -> list[Any]:
        """Start the search of a batch. The results can be awaited one by one."""
        prefixes = [[self._tgt_names[index] for index in source.prefix] for source in batch]
        results: list[Any] = self._translator.translate_batch(
            [[self._src_names[index] for index in source.ids] for source in batch],
            target_prefix=prefixes if any(prefixes) else None,
            beam_size=settings.beam_size,
            # CTranslate2 only has the penalty n ** alpha. For another one, all its hypotheses are rescored here.
            num_hypotheses=settings.n_best if settings.length_penalty == "power" else settings.beam_size,
            length_penalty=settings.length_penalty_alpha,
            min_decoding_length=settings.min_tokens,
            max_decoding_length=longest,
            return_scores=True,
            asynchronous=True,
            **SUPPRESSED,
        )
        return results

    def _hypothesis(self, tokens: Sequence[str], score: float, limit: int, settings: InferenceSettings) -> Hypothesis:
        """Replace CTranslate2's penalty n ** alpha by the penalty of the settings. n includes the end token.

        `tokens` do not include the end token, so a hypothesis is finished if it is shorter than its limit. A batch has
        one limit, the largest of its sources, so longer outputs of the other sources are cut here.
        """
        ids = tuple(self._tgt_ids[token] for token in tokens)
        finished = len(ids) < limit
        length = max(1, len(ids) + finished)
        log_prob = score * length**settings.length_penalty_alpha
        penalty = float(length_penalties(settings, length))
        return Hypothesis(ids[:limit], (), log_prob, log_prob / penalty, finished)
