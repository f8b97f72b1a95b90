"""Compare an exported CTranslate2 model with the original: greedy outputs and the log-probability of every token.

The sources are random tokens, so the check needs no text and works for any language. Beam search is not compared:
CTranslate2 normalizes probabilities without the suppressed tokens, which changes a few beams. Both programs score the
same token sequence, so the log-probabilities show a wrong weight even if all greedy translations happen to be equal.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.engines.choice import Engines
from dragoman.engines.interface import Source
from dragoman.exchange.ctranslate2_export import tokens_of
from dragoman.records import Hypothesis
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS

SUPPRESSED: dict[str, Any] = {"disable_unk": True, "suppress_sequences": [["<pad>"], ["<s>"]]}
"""Options of CTranslate2 that suppress the tokens that Dragoman never outputs."""

# The sample: 32 sources of 12 tokens, whose outputs may have 20 tokens more. The seed makes the check repeatable.
_SENTENCES, _TOKENS, _EXTRA_TOKENS, _SEED = 32, 12, 20, 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well the exported model agrees with the original on the sample.

    Attributes
    ----------
    equal
        The number of sources with the same greedy translation in both programs.
    total
        The number of sources in the sample.
    largest_difference
        The largest absolute difference of the log-probability of a token, in nats.
    """

    equal: int
    total: int
    largest_difference: float


def agreement_of(exported: Path, trained: Model) -> Agreement:
    """Load an exported folder with CTranslate2, and compare it with the model that it was exported from.

    CTranslate2 computes in float32, because how exact its int8 products are depends on the processor.
    """
    import ctranslate2

    engine = ctranslate2.Translator(str(exported), device="cpu", intra_threads=1, compute_type="float32")
    rows = _sample(trained)
    ours = _translate_greedily(trained, rows)
    src_names, tgt_names = tokens_of(trained.tokenizers.src), tokens_of(trained.tokenizers.tgt)
    sources = [[src_names[index] for index in row] for row in rows]
    written = [[tgt_names[index] for index in hypothesis.ids] for hypothesis in ours]
    limit = len(sources[0]) + 1 + _EXTRA_TOKENS
    theirs = engine.translate_batch(sources, beam_size=1, max_decoding_length=limit, **SUPPRESSED)
    scored = engine.score_batch(sources, written)
    differences = (
        abs(one - other)
        for hypothesis, scores in zip(ours, scored, strict=True)
        for one, other in zip(hypothesis.token_log_probs, scores.log_probs, strict=False)
    )
    equal = sum(one.hypotheses[0] == tokens for one, tokens in zip(theirs, written, strict=True))
    return Agreement(equal, len(rows), max(differences))


def _sample(trained: Model) -> list[list[int]]:
    """Source ids without eos. All have the same length, so that one limit applies to all outputs."""
    positions = trained.weights.settings.position_limit or _TOKENS + 1
    length = max(1, min(_TOKENS, trained.config.data.max_tokens, positions - 1))
    draw = random.Random(_SEED)
    ids = range(len(CONTROL_TOKENS), trained.tokenizers.src.vocab_size)
    return [[draw.choice(ids) for _ in range(length)] for _ in range(_SENTENCES)]


def _translate_greedily(trained: Model, rows: list[list[int]]) -> list[Hypothesis]:
    settings = InferenceSettings(beam_size=1, max_extra_tokens=_EXTRA_TOKENS, precision="float32")
    sources = [Source(str(number), row) for number, row in enumerate(rows)]
    return [found[0] for found in Engines([trained.weights]).search(sources, settings)]
