"""Fine-tuning: the settings and weights that a run takes from another model.

A run fine-tunes a model if `train.start_from` (--from) is set. It takes the architecture, tokenizers and languages of
that model. The card of the new model records its lineage: the models that it descends from.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dragoman.bundle import Model, resolve_model_folder
from dragoman.bundle.card import read_card
from dragoman.bundle.folder import read_settings
from dragoman.bundle.weights import WEIGHTS
from dragoman.config import Config
from dragoman.config.fields import quote_value
from dragoman.config.recipes import FREE_IN_FINE_TUNING, CorpusSize, fine_tuning_recipe
from dragoman.errors import ConfigError, DragomanError
from dragoman.files import verify_folder
from dragoman.languages import main_language
from dragoman.text.lexicon import LEXICON, Lexicon
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.step.optimizer import learning_rate


def settings_for(path: str, size: CorpusSize) -> Config:
    """Return the default settings for fine-tuning the model at `path` (a model folder or a run). Raises ModelError."""
    base = read_settings(resolve_model_folder(Path(path)))
    peak = learning_rate(max(base.train.warmup_steps, 1), base.train, base.model.d_model)
    return fine_tuning_recipe(base, peak, size)


def match_model(config: Config) -> Config:
    """Return the configuration, with languages that the data does not state taken from the model to fine-tune.

    Raises ConfigError if architecture, tokenizer or languages differ from those of that model. Languages that the data
    or the model does not state are not compared.
    """
    folder = resolve_model_folder(Path(config.train.start_from))
    base, model = read_settings(folder), f"{folder}, which training starts from,"
    free = FREE_IN_FINE_TUNING | {"model.preset", "tokenizer.bpe_dropout"}
    for table in ("model", "tokenizer"):
        wanted, has = (asdict(getattr(one, table)) for one in (config, base))
        if name := next((name for name in has if wanted[name] != has[name] and f"{table}.{name}" not in free), None):
            if wanted.get("preset") != has.get("preset"):  # the user set the preset, and it changed the sizes
                name = "preset"
            raise ConfigError(
                f"`{table}.{name}` is {quote_value(wanted[name])}, but {model} has {quote_value(has[name])}. "
                f"Leave it out, or train without `train.start_from` (`--from`)."
            )
    languages = {}
    for side in ("src_lang", "tgt_lang"):
        stated, known = getattr(config.data, side), getattr(base.data, side)
        one, other = main_language(stated), main_language(known)
        if one and other and len(one) == len(other) and one != other:
            raise ConfigError(
                f"`data.{side}` is {one}, but {model} has {other}. "
                "Use a model with the same languages in the same direction."
            )
        languages[side] = stated or known
    return replace(config, data=replace(config.data, **languages))


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The tokenizers, the lexicon and the history that a run starts with.

    Parameters
    ----------
    tokenizers
        The tokenizers of both sides.
    lexicon
        The lexicon, or None, and the number of pairs that it was learned from.
    lineage
        A description of each model that this one descends from, oldest first.
    origin
        Where the first of these models was imported from, or "".
    model
        The model to take the weights from. None if the run continues, because its checkpoint holds the weights.
    """

    tokenizers: TokenizerPair
    lexicon: tuple[Lexicon | None, int]
    lineage: tuple[str, ...]
    origin: str
    model: Model | None


def continuation_of(out: Path) -> StartingPoint | None:
    """Return the tokenizers, lexicon and lineage of a run's newest intact checkpoint, or None if the run has none.

    They let a run continue without the text that its tokenizers were trained on, and without the original model.
    """
    run = RunFolder(out)
    for step in reversed(run.steps()):
        folder = run.step_folder(step)
        try:
            verify_folder(folder)
            card, file = read_card(folder), folder / LEXICON
            lexicon = Lexicon.from_bytes(file.read_bytes()) if file.exists() else None
            known = lexicon, card.lexicon_pairs
            return StartingPoint(TokenizerPair.load(folder), known, card.lineage, card.origin, None)
        except (DragomanError, ValueError):
            continue  # `restore_session` reports it
    return None


def starting_point_of(path: str) -> StartingPoint | None:
    """Load the model at `path` (a model folder or a run). Returns None if `path` is "". Raises ModelError."""
    if not path:
        return None
    folder = resolve_model_folder(Path(path))
    model = Model.load(folder, "cpu")
    card = model.card
    facts = f"{card.languages}, {card.steps:,} steps, {card.train_pairs:,} pairs, {fingerprint_of(folder)}"
    lineage = *card.lineage, f"{Path(path).name} ({facts})"
    return StartingPoint(model.tokenizers, (model.lexicon, card.lexicon_pairs), lineage, card.origin, model)


def fingerprint_of(folder: Path) -> str:
    """Return the start of the hash of a model's weights, as cards record it."""
    return f"weights sha256 {verify_folder(folder)['files'][WEIGHTS]['sha256'][:12]}"
