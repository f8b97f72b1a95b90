"""`Run`, a training run in Python: scores, curves, report, translator, test sentences, and how to resume it."""

import os
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dragoman.bundle import Card, resolve_model_folder
from dragoman.bundle.card import read_card, score_text
from dragoman.counting import counting
from dragoman.display import Facts, ShownRecord, html_page, html_table, one_screen
from dragoman.errors import ConfigError, DataError, ModelError, needs_train_extra
from dragoman.files import MANIFEST
from dragoman.training.run.frozen_settings import frozen_config
from dragoman.training.run.run_folder import CORPUS, LOCK
from dragoman.workflows.api.keywords import check_path, naming_keywords, overrides_of_keywords
from dragoman.workflows.api.loading import import_start
from dragoman.workflows.api.sentences import SentenceFiles
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress
from dragoman.workflows.training.settings import RunRequest, resolve_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dragoman.config.keyword_types import TrainKeywords
    from dragoman.inference.translator import Translator

_CURVES = ("train", "validation")


@dataclass(frozen=True, slots=True, repr=False)
class TestSentence(ShownRecord):
    """A sentence that the model has not seen in training, its reference, and the translation of the model."""

    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    source: str
    reference: str
    prediction: str

    def __repr__(self) -> str:
        return one_screen(self._facts())

    def _facts(self) -> Facts:
        return [("SOURCE", self.source), ("TARGET", self.reference), ("PREDICTED", self.prediction)]


@dataclass(frozen=True, slots=True)
class RunReport:
    """The HTML report of a run. A notebook shows it as a page of its own."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        try:
            return html_page(self.path.read_text(encoding="utf-8"))
        except Exception as error:
            return f"<p>{escape(str(error))}</p>"


class RunScores(dict[str, dict[str, float]]):
    """The scores of a run by data set and search, such as ``scores["test, beam 5"]["BLEU"]``.

    ``scores["BLEU"]`` is the newest score on the test set, or on the validation set of a run without a test set.
    """

    def __missing__(self, name: str) -> float:
        return self.latest()[name]

    def latest(self) -> dict[str, float]:
        """The newest scores on the test set, else on the validation set, by metric. Empty if there are none."""
        parts = [
            row for part in ("validation, beam", "test, beam") for data, row in self.items() if data.startswith(part)
        ]
        return parts[-1] if parts else {}


class Run(os.PathLike[str]):
    """A training run: a folder with checkpoints, a log and a report.

    `dragoman.train` returns one. ``Run(path)`` opens an existing run, and reads its files only when needed.

    Parameters
    ----------
    path : str or Path
        The folder of the run.

    Raises
    ------
    ModelError
        If the folder does not exist.
    DataError
        If the folder is not a run.

    Examples
    --------
    >>> run = Run("run")
    >>> run.translator()("Where is the station?")
    'Wo ist der Bahnhof?'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_path("path", path)
        self._translators: dict[str, tuple[object, Translator]] = {}
        require_model(self.path)
        if frozen_config(self.path) is None:
            if (self.path / LOCK).exists() or (self.path / "data").is_dir():
                raise DataError(f"{self.path} is a run without a checkpoint yet. Wait for one, or train again.")
            raise DataError(f"{self.path} is not a run. Name a folder that `dragoman.train` has written.")

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        name = f"Run({str(self.path)!r})"
        try:
            card = self.card
        except Exception as error:  # whatever is wrong with the folder, a notebook shows the run
            return f"{name}: {error}"
        scores = score_text(RunScores(card.scores_by_data()).latest())
        return f"{name}: {card.languages}, {card.steps:,} step{'s' * (card.steps != 1)}{', ' if scores else ''}{scores}"

    def _repr_html_(self) -> str:
        scores = RunScores()
        with suppress(Exception):
            scores = self.scores
        names = list(dict.fromkeys(name for row in scores.values() for name in row))
        rows = [(data, *(f"{row[name]:.2f}" if name in row else "" for name in names)) for data, row in scores.items()]
        return f"<p>{escape(repr(self))}</p>" + html_table(("data", *names), rows)

    @property
    def model(self) -> Path:
        """The folder of the run's best model. Raises ModelError if the run has none yet."""
        return resolve_model_folder(self.path)

    @property
    def card(self) -> Card:
        """The facts of the best model: languages, counts, scores with signatures, versions."""
        return read_card(self.model)

    @property
    def scores(self) -> RunScores:
        """The scores of the finished run by data set and search, such as ``scores["test, beam 5"]["BLEU"]``.

        ``scores["BLEU"]`` is the score on the test set, or on the validation set of a run without a test set.
        """
        return RunScores(self.card.scores_by_data())

    @property
    def history(self) -> Any:
        """The log of the run: one record per progress line and per validation, in the order of steps.

        Returns
        -------
        list of dict, or pandas.DataFrame
            A data frame if pandas is installed. Records have the keys "event" ("train" or "validation"), "step",
            "epoch", "loss" (nats per token), "perplexity", "seconds", and "learning_rate" and "tokens_per_second", or
            "bleu" and "chrf".
        """
        records = self._records()
        try:
            import pandas
        except ImportError:
            return records
        return pandas.DataFrame.from_records(records)

    def _records(self) -> list[dict[str, Any]]:
        from dragoman.visualization.report.run_facts import read_events

        return [event for event in read_events(self.path / "log.jsonl") if event.get("event") in _CURVES]

    @needs_train_extra("`Run.plot`")
    def plot(self) -> "Figure":
        """Plot loss, perplexity, scores, learning rate and speed over the steps.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        DataError
            If nothing has been logged yet.
        """
        from dragoman.visualization.report.run_figures import plot_run

        return plot_run(self.path)

    @property
    @needs_train_extra("`Run.report`")
    def report(self) -> RunReport:
        """The report of the finished run, which a notebook displays. Raises DataError if there is none yet."""
        from dragoman.visualization.report.report import REPORT

        path = self.path / REPORT
        if not path.exists():
            raise DataError(
                f"{path} does not exist yet. Finish the run, or write it with `dragoman report {self.path}`."
            )
        return RunReport(path)

    def translator(self, device: str = "auto") -> "Translator":
        """Load the run's best model, once for each device until the run has a better one.

        Parameters
        ----------
        device : str
            Name of a torch device. "auto" takes the first of cuda, mps and cpu.

        Returns
        -------
        Translator
        """
        from dragoman.inference.translator import Translator

        folder = self.model
        version = folder, (folder / MANIFEST).stat().st_mtime_ns
        if device not in self._translators or self._translators[device][0] != version:
            self._translators[device] = version, Translator.load(folder, device)
        return self._translators[device][1]

    def test_sentence(self, number: int = 1) -> TestSentence:
        """Translate a sentence of the test set, or of the validation set if the run has no test set.

        Parameters
        ----------
        number : int
            Number of the sentence, counted from 1.

        Returns
        -------
        TestSentence
            Source, reference and prediction.

        Raises
        ------
        ConfigError
            If there is no sentence with this number.
        ModelError
            If the run has no test or validation data.
        """
        from dragoman.visualization.report.run_facts import open_stored_part

        store = open_stored_part(self.path, "test") or open_stored_part(self.path, "dev")
        if store is None:
            raise ModelError(f"{self.path} has no test or validation data. Translate a text of your own instead.")
        if type(number) is not int or not 1 <= number <= len(store):
            raise ConfigError(f"`number` must be a whole number from 1 to {len(store)}, but is {number!r}.")
        source, reference = store.src_text(number - 1), store.tgt_text(number - 1)
        return TestSentence(source, reference, self.translator().translate([source])[0])

    @naming_keywords()
    def resume(self, **settings: "Unpack[TrainKeywords]") -> "Run":
        """Continue training with the same data and other limits, such as ``run.resume(max_steps=2000)``.

        Parameters
        ----------
        **settings
            As for `dragoman.train`. Only settings that may change in a started run are allowed: limits, validation,
            bookkeeping, device, and all of [inference].

        Returns
        -------
        Run

        Raises
        ------
        CheckpointError
            If a setting may not change, or if the run cannot continue.
        """
        with SentenceFiles(self.path / CORPUS) as files:
            overrides = overrides_of_keywords(settings, path_of=files.path)
            return train_in(RunRequest((), overrides, self.path, files.sources), files.progress)


@needs_train_extra("training")
def train_in(request: RunRequest, progress: Progress) -> Run:
    """Train in the folder of the request, or continue there. A signal to stop saves the run and returns it."""
    from dragoman.signals import Interrupted
    from dragoman.workflows.training.training import train_run

    run = resolve_run(import_start(request), progress)
    try:
        with counting("validating", QUIET.stage):  # a validation has no bar of its own
            train_run(run, progress)
    except Interrupted:
        progress.note(f"stopped and saved. `Run({str(run.folder)!r}).resume()` continues")
    return Run(run.folder)
