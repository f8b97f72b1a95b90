"""Look into a model: the summary of its parts, and one translation from inside."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bundle import Card, Model, resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config, load_config, read_given
from dragoman.config.loading import flag_of
from dragoman.display import html_table, text_table
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.model.shapes import ParameterTable, expected_parameters, parameter_rows
from dragoman.workflows.models import ModelRequest, load_models, require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer
    from dragoman.visualization.inspection.inspection import Inspection

# In a layer, such as encoder.layers.0.self_attn.in_weight, or elsewhere, such as src_embedding.weight.
_PART = re.compile(r"(\w+\.layers)\.\d+\.(\w+)\..*|\.\w+$")
_SIZE_FLAGS = ("--src-vocab-size", "--tgt-vocab-size")


def inspect_model(
    request: ModelRequest, text: str, test_sentence: int | None = None, progress: Progress = QUIET
) -> "Inspection":
    """Translate a text with beam search, and record what happens inside the model.

    Parameters
    ----------
    request
        One model, and the settings of the search.
    text
        The text to translate.
    test_sentence
        Number of a sentence of the run's test set, counted from 1. It replaces `text`, and its reference is shown.
    progress
        Receives notes about the model folder and the search.

    Returns
    -------
    Inspection
        The tokens, attention weights, probabilities and beams of the translation.

    Raises
    ------
    ConfigError
        If a setting is invalid, or if the run has no test sentence with this number.
    DataError
        If the text is empty.
    ModelError
        If the model is missing or damaged, or if the run has no test sentences.
    """
    reference = ""
    if test_sentence is not None:
        text, reference = _test_sentence(Path(request.paths[0]), test_sentence)
    if not text.strip():
        raise DataError("the text is empty. Give a sentence to inspect, in quotes.")
    model = load_models(request, progress)[0]
    from dragoman.visualization.inspection.inspector import inspect_text

    name = str(resolve_model_folder(Path(request.paths[0]))) if request.paths else "the model"
    own = model.config.inference
    if own.sample or own.mbr_samples:
        progress.note(f"inspecting {name} with beam search, although its settings sample translations")
    searched = Config(inference=replace(own, n_best=1, **WITHOUT_SAMPLING))
    settings = load_config([], request.overrides, searched).inference
    return inspect_text(model, text, settings, name=name, reference=reference)


def _test_sentence(run: Path, number: int) -> tuple[str, str]:
    """Return a test sentence of a run and its reference. `number` counts from 1.

    Raises ModelError if the run has no test sentences, and ConfigError if it has fewer than `number`.
    """
    from dragoman.visualization.report.run_facts import open_stored_part

    store = open_stored_part(run, "test")
    if store is None:
        raise ModelError(
            f"{run} has no test sentences: it is not a run, or was trained without `data.test` and "
            "`data.test_fraction`. Give a text instead."
        )
    if not 1 <= number <= len(store):
        raise ConfigError(f"`--test` must be from 1 to {len(store)}, the test sentences of {run}, but is {number}.")
    return store.src_text(number - 1), store.tgt_text(number - 1)


@dataclass(frozen=True, slots=True, repr=False)
class ModelSummary:
    """All parameters, their number by the formula, the configuration, and the card of a trained model.

    It shows the parts of the model, and the same parts of all layers together. `str` has all parameters.
    """

    rows: ParameterTable
    formula: int
    config: Config
    card: Card | None

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        card = f"\n\n{self.card.to_markdown().rstrip()}" if self.card else ""
        return f"{self.rows}\n{'by the formula':<{width}}  {'':>14}  {self.formula:>12,}  ({self._verdict}){card}"

    def __repr__(self) -> str:
        return "\n".join(text_table(("part", "parameters"), self._parts()))

    def _repr_html_(self) -> str:
        return html_table(("part", "parameters"), self._parts())

    @property
    def _verdict(self) -> str:
        return "equal" if self.rows.total == self.formula else "DIFFERENT"

    def _parts(self) -> list[tuple[str, str]]:
        counts = Counter[str]()
        for row in self.rows:
            counts[_PART.sub(r"\1.\2", row.name).rstrip(".")] += row.count
        counts |= Counter({"total": self.rows.total, f"by the formula ({self._verdict})": self.formula})
        return [(part, f"{count:,}") for part, count in counts.items()]


def summarize_model(
    path: "Path | Model | Transformer | None",
    overrides: Mapping[str, str],
    sizes: tuple[int, int] = (0, 0),
    progress: Progress = QUIET,
) -> ModelSummary:
    """List the parameters of a model. A quantized model has the parameters of the model that it was made from.

    Parameters
    ----------
    path
        A model folder, a run, a model in memory or a TOML file. None for a configuration of `overrides` alone.
    overrides
        Settings of a configuration as text by key, such as ``model.preset``.
    sizes
        Entries of both vocabularies of a configuration. 0 for their maximum, such as `tokenizer.vocab_size`.
    progress
        Receives a note if a configuration does not set the size of the model.

    Raises
    ------
    ConfigError
        If the configuration is invalid, or if the settings or sizes would change a trained model.
    ModelError
        If the model is missing or damaged.
    """
    card = None
    if path is None or (isinstance(path, Path) and path.suffix == ".toml" and not path.is_dir()):
        config, sizes = _configuration([path] if path else [], overrides, sizes, progress)
    else:
        name = path if isinstance(path, Path) else "this"
        if isinstance(path, Path):
            require_model(path)
        flags = [*map(flag_of, overrides), *(flag for flag, size in zip(_SIZE_FLAGS, sizes, strict=True) if size)]
        if flags:
            raise ConfigError(f"`{flags[0]}` is for a configuration, but {name} is a trained model. Leave it out.")
        # Loading compares the tensors with the settings.
        model = Model.load(resolve_model_folder(path), "cpu") if isinstance(path, Path) else path
        if isinstance(model, Model):
            config, card = model.config, model.card
            sizes = model.tokenizers.src.vocab_size, model.tokenizers.tgt.vocab_size
        else:
            config, sizes = Config(model=model.settings), (model.src_vocab_size, model.tgt_vocab_size)
    return ModelSummary(parameter_rows(config.model, *sizes), expected_parameters(config.model, *sizes), config, card)


def _configuration(
    paths: Sequence[Path], overrides: Mapping[str, str], sizes: tuple[int, int], progress: Progress
) -> tuple[Config, tuple[int, int]]:
    """The configuration and the sizes of its vocabularies. Raises ConfigError for contradicting sizes."""
    given = read_given(paths, overrides)
    base = Config().model
    if not given.unchecked_over(Config()).tokenizer.joint:
        base = replace(base, tie="decoder")  # as in every recipe
    config = given.over(Config(model=base)).config
    is_shared = config.model.tie == "all"
    one_size = (sizes[0] or sizes[1]) if is_shared else 0
    limits = [config.tokenizer.vocab_size_of(side)[1] for side in ("src", "tgt")]
    src_size, tgt_size = (size or one_size or limit for size, limit in zip(sizes, limits, strict=True))
    if is_shared and src_size != tgt_size:
        raise ConfigError(
            f'`--src-vocab-size` and `--tgt-vocab-size` must be equal if `model.tie` is "all", but are {src_size} and '
            f"{tgt_size}. Give one size, or `--model.tie decoder`."
        )
    if not given.keys & {"model.preset", "model.d_model"}:
        progress.note(
            "the size of the model is not given: this is the default; `train` chooses a size by the amount of text"
        )
    return config, (src_size, tgt_size)
