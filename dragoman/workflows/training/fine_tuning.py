"""Fine-tuning: the settings and weights that a run takes from another model, and the scores before and after.

A run fine-tunes a model if `train.start_from` (--from) is set. It takes the architecture, tokenizers and languages of
that model. The card of the new model records its lineage: the models that it descends from.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.bundle import Model, resolve_model_folder
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
from dragoman.records import Score
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.step.optimizer import learning_rate
from dragoman.visualization.report.report import ReportedTest
from dragoman.workflows.progress import Progress, ScoreChange

REPLAY_TEST = "replay test"


def settings_for(path: str, size: CorpusSize) -> Config:
    """Return the default settings for fine-tuning the model at `path` (a model folder or a run). Raises ModelError."""
    base = read_settings(resolve_model_folder(Path(path)))
    peak = learning_rate(max(base.train.warmup_steps, 1), base.train, base.model.d_model)
    return fine_tuning_recipe(base, peak, size)


def check_same_model(config: Config, path: str) -> None:
    """Raise ConfigError if architecture, tokenizer or languages differ from those of the model at `path`.

    Languages that the data or the model does not state are not compared.
    """
    folder = resolve_model_folder(Path(path))
    base, model = read_settings(folder), f"{folder}, which training starts from,"
    free = FREE_IN_FINE_TUNING | {"model.preset", "tokenizer.bpe_dropout"}
    for table in ("model", "tokenizer"):
        asked, has = (asdict(getattr(one, table)) for one in (config, base))
        if name := next((name for name in has if asked[name] != has[name] and f"{table}.{name}" not in free), None):
            if asked.get("preset") != has.get("preset"):  # the user set the preset, and it changed the sizes
                name = "preset"
            raise ConfigError(
                f"`{table}.{name}` is {quote_value(asked[name])}, but {model} has {quote_value(has[name])}. "
                f"Leave it out, or train without `train.start_from` (--from)."
            )
    for side in ("src_lang", "tgt_lang"):
        given, known = (main_language(lang) for lang in (getattr(config.data, side), getattr(base.data, side)))
        if given and known and len(given) == len(known) and given != known:
            raise ConfigError(
                f"`data.{side}` is {given}, but {model} has {known}. "
                "Use a model with the same languages in the same direction."
            )


def model_languages(path: str) -> tuple[str, str]:
    """Return the stated source and target language of the model at `path`, each "" if it was not stated."""
    data = read_settings(resolve_model_folder(Path(path))).data
    return data.src_lang, data.tgt_lang


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The tokenizers and history that a run starts with.

    Parameters
    ----------
    tokenizers
        The tokenizers of both sides.
    lineage
        A description of each model that this one descends from, oldest first.
    origin
        Where the first of these models was imported from, or "".
    model
        The model to take the weights from. None if the run continues, because its checkpoint holds the weights.
    """

    tokenizers: TokenizerPair
    lineage: tuple[str, ...]
    origin: str
    model: Model | None


def continuation_of(out: Path) -> StartingPoint | None:
    """Return the tokenizers and lineage of a run's newest intact checkpoint, or None if the run has none.

    They let a run continue without the text that its tokenizers were trained on, and without the original model.
    """
    run = RunFolder(out)
    for step in reversed(run.steps()):
        folder = run.step_folder(step)
        try:
            verify_folder(folder)
            card = read_card(folder)
            return StartingPoint(TokenizerPair.load(folder), card.lineage, card.origin, None)
        except DragomanError:
            continue  # `restore_session` reports it
    return None


def starting_point_of(path: str) -> StartingPoint | None:
    """Load the model at `path` (a model folder or a run). Returns None if `path` is "". Raises ModelError."""
    if not path:
        return None
    folder = resolve_model_folder(Path(path))
    model = Model.load(folder, "cpu")
    card = model.card
    return StartingPoint(model.tokenizers, (*card.lineage, _describe_model(path, folder)), card.origin, model)


def _describe_model(path: str, folder: Path) -> str:
    """Return the name, facts and weights hash of a model, for the cards of the models made from it."""
    card = read_card(folder)
    languages = f"{card.src_lang or '?'} to {card.tgt_lang or '?'}"
    trained = f"{card.steps:,} steps, {card.train_pairs:,} pairs"
    return f"{Path(path).name} ({languages}, {trained}, {_fingerprint(folder)})"


def _fingerprint(folder: Path) -> str:
    return f"weights sha256 {verify_folder(folder)['files'][WEIGHTS]['sha256'][:12]}"


def compare_with_base(
    tuned: Model, translator: Translator, corpora: Corpora, tests: Sequence[ReportedTest], progress: Progress
) -> tuple[ScoreChange, ...]:
    """Score the model from before fine-tuning, and pair its scores with those of the tuned model.

    Parameters
    ----------
    tuned, translator
        The tuned model and its translator. The model from before translates with the same settings.
    corpora
        The corpora of the run. Its replay test, if there is one, is scored too.
    tests
        The translations of the tuned model.
    progress
        Receives a note if the scores before are missing.

    Returns
    -------
    tuple of ScoreChange
        BLEU and chrF on each test, before and after. Empty if the original model is gone or has changed.
    """
    path = tuned.config.train.start_from
    if corpora.replay_test:
        pairs = list(corpora.replay_test.pairs())
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        outputs = translator.translate(sources)
        tests = [*tests, ReportedTest(REPLAY_TEST, sources, references, outputs, (), translator.translate)]
    try:
        folder = resolve_model_folder(Path(path))
        if _fingerprint(folder) not in "".join(tuned.card.lineage[-1:]):
            raise ModelError(f"{path} is no longer the model that training started from.")
        before = Translator.from_models([Model.load(folder, str(tuned.transformer.device))])
    except DragomanError as error:
        progress.note(f"no scores from before fine-tuning are available: {error}")
        return ()
    before.settings = translator.settings  # so that only the weights differ
    changes: list[ScoreChange] = []
    for test in tests:
        old = _scores(before.translate(test.sources), test.references, tuned)
        new = _scores(test.outputs, test.references, tuned)
        changes += [ScoreChange(test.part, len(test.sources), *pair) for pair in zip(old, new, strict=True)]
    return tuple(changes)


def _scores(outputs: Sequence[str], references: Sequence[str], model: Model) -> list[Score]:
    tokenize = tokenizer_for(model.config.data.tgt_lang)
    return [bleu(outputs, references, tokenize), chrf(outputs, references)]
