"""Fine-tuning: what a run takes over from the model it starts from, and scores before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.bundle import resolve_model_folder
from dragoman.bundle.card import read_card
from dragoman.bundle.folder import read_settings
from dragoman.bundle.weights import WEIGHTS
from dragoman.config import Config
from dragoman.config.fields import quote_value
from dragoman.config.recipes import FREE_IN_FINE_TUNING, CorpusSize, fine_tuning_recipe
from dragoman.errors import ConfigError, DragomanError, ModelError
from dragoman.evaluation.metrics import bleu, chrf, tokenizer_for
from dragoman.files import verify_folder
from dragoman.inference.translator import Translator
from dragoman.languages import main_language
from dragoman.model.trained import TrainedModel
from dragoman.records import Score
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.run.checkpoint import RunFolder
from dragoman.training.step.schedule import learning_rate
from dragoman.workflows.progress import QUIET, Progress
from dragoman.workflows.training.results import ScoreChange

REPLAY_TEST = "replay test"


def settings_for(path: str, size: CorpusSize) -> Config:
    """The default settings for fine-tuning the model at `path` (a model folder or a run). Raises ModelError."""
    base = read_settings(resolve_model_folder(Path(path)))
    peak = learning_rate(max(base.train.warmup_steps, 1), base.train, base.model.d_model)
    return fine_tuning_recipe(base, peak, size)


def check_same_model(config: Config, path: str) -> None:
    """Raise ConfigError if the settings differ from the model at `path` in architecture, tokenizer or languages."""
    folder = resolve_model_folder(Path(path))
    base = read_settings(folder)
    for table in ("model", "tokenizer"):
        asked, has = (asdict(getattr(one, table)) for one in (config, base))
        free = FREE_IN_FINE_TUNING | {"model.preset", "tokenizer.bpe_dropout"}
        if name := next((name for name in has if asked[name] != has[name] and f"{table}.{name}" not in free), None):
            if asked.get("preset") != has.get("preset"):  # then sizes are what was not given
                name = "preset"
            raise ConfigError(
                f"`{table}.{name}` is {quote_value(asked[name])}, but {folder}, which training starts from, has "
                f"{quote_value(has[name])}. Leave it out, or train without `train.start_from` (--from)."
            )
    check_languages(config, folder, "which training starts from")


def check_languages(config: Config, folder: Path, role: str) -> None:
    """Raise ConfigError if the languages of the data are known and differ from those of the model in `folder`."""
    card = read_card(folder)
    for side in ("src_lang", "tgt_lang"):
        given, known = (main_language(lang) for lang in (getattr(config.data, side), getattr(card, side)))
        if given and known and len(given) == len(known) and given != known:
            raise ConfigError(
                f"`data.{side}` is {given}, but {folder}, {role}, is a model of {known}. "
                "Name a model of the same languages, in the same direction."
            )


def model_languages(path: str) -> tuple[str, str]:
    """The source and target language of the model at `path`, "" if its card names none."""
    card = read_card(resolve_model_folder(Path(path)))
    return card.src_lang, card.tgt_lang


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What a run starts from. `trained` is None if the run continues, because its checkpoint holds the weights.

    `teachers` are the teachers of a run that continues.
    """

    tokenizers: TokenizerPair
    lineage: tuple[str, ...]
    origin: str
    trained: TrainedModel | None
    teachers: tuple[str, ...] = ()


def continuation_of(out: Path) -> StartingPoint | None:
    """The tokenizers and lineage of a run's newest intact checkpoint, or None if the run has none.

    The run needs neither the text its tokenizers were trained on nor the model it started from.
    """
    run = RunFolder(out)
    for step in reversed(run.steps()):
        folder = run.step_folder(step)
        try:
            verify_folder(folder)
            card = read_card(folder)
            return StartingPoint(TokenizerPair.load(folder), card.lineage, card.origin, None, card.teachers)
        except DragomanError:
            continue  # `restore_session` reports it
    return None


def starting_point_of(path: str) -> StartingPoint | None:
    """The model at `path` (a model folder or a run), or None if `path` is "". Raises ModelError."""
    if not path:
        return None
    folder = resolve_model_folder(Path(path))
    trained = TrainedModel.load(folder, "cpu")
    card = trained.card
    return StartingPoint(trained.tokenizers, (*card.lineage, describe_model(path, folder)), card.origin, trained)


def describe_model(path: str, folder: Path) -> str:
    """Name, facts and weights hash of a model, for the cards of models made from it."""
    card = read_card(folder)
    languages = f"{card.src_lang or '?'} to {card.tgt_lang or '?'}"
    trained = f"{card.steps:,} steps, {card.train_pairs:,} pairs"
    return f"{Path(path).name} ({languages}, {trained}, {_fingerprint(folder)})"


def _fingerprint(folder: Path) -> str:
    return f"weights sha256 {verify_folder(folder)['files'][WEIGHTS]['sha256'][:12]}"


@dataclass(frozen=True, slots=True)
class TranslatedTest:
    """A test set and the new model's translations."""

    sources: Sequence[str]
    references: Sequence[str]
    outputs: Sequence[str]


def compare_with_base(
    tuned: TrainedModel,
    translator: Translator,
    corpora: Corpora,
    parts: Mapping[str, TranslatedTest],
    progress: Progress = QUIET,
) -> tuple[ScoreChange, ...]:
    """The scores before and after fine-tuning, on each part and on the replay test; `translator` is of the tuned model.

    If the original model is gone, notes the reason and returns none.
    """
    path = tuned.config.train.start_from
    if corpora.replay_test:
        pairs = list(corpora.replay_test.pairs())
        sources = [pair.src for pair in pairs]
        replay_test = TranslatedTest(sources, [pair.tgt for pair in pairs], translator.translate(sources))
        parts = {**parts, REPLAY_TEST: replay_test}
    try:
        folder = resolve_model_folder(Path(path))
        if _fingerprint(folder) not in "".join(tuned.card.lineage[-1:]):
            raise ModelError(f"{path} is another model now than the one that training began with.")
        before = Translator.from_trained([TrainedModel.load(folder, str(tuned.model.device))])
    except DragomanError as error:
        progress.note(f"no scores from before fine-tuning: {error}")
        return ()
    before.settings = translator.settings  # so that only the weights differ
    changes: list[ScoreChange] = []
    for name, part in parts.items():
        old = _scores(before.translate(part.sources), part.references, tuned)
        new = _scores(part.outputs, part.references, tuned)
        changes += [ScoreChange(name, len(part.sources), *pair) for pair in zip(old, new, strict=True)]
    return tuple(changes)


def _scores(outputs: Sequence[str], references: Sequence[str], trained: TrainedModel) -> list[Score]:
    tokenize = tokenizer_for(trained.config.data.tgt_lang)
    return [bleu(outputs, references, tokenize), chrf(outputs, references)]
