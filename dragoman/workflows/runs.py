"""Work on a run after training: an average of its checkpoints (`dragoman average`), and a new report."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bundle import Model, resolve_model_folder
from dragoman.errors import CheckpointError
from dragoman.evaluation.metrics import all_metrics, counts_of, tokenizer_for, warnings_about
from dragoman.files import check_new_folder
from dragoman.training.run.run_folder import RunFolder
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.data.store import PairStore
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.report import ReportedTest


def average_run(run: Path, last: int = 5, out: Path | None = None) -> Path:
    """Average the weights of the last checkpoints of a run into a new model folder.

    Parameters
    ----------
    run
        The folder of the run.
    last
        Number of checkpoints to average, counted from the newest.
    out
        The folder to write, which must not exist. None writes ``mean`` in the run's folder, and replaces an
        earlier average.

    Returns
    -------
    Path
        The model folder. Its card has the steps of the averaged checkpoints.

    Raises
    ------
    CheckpointError
        If the run has no checkpoints.
    ModelError
        If the run does not exist, if a checkpoint is damaged, or if `out` exists or is inside a model folder.
    """
    require_model(run)
    folder = RunFolder(run)
    steps = folder.steps()[-last:]
    if not steps:
        raise CheckpointError(f"{run} has no checkpoints. Name the folder of a run of `dragoman train`.")
    if out is not None:
        check_new_folder(out)
    mean = out or run / "mean"
    model = Model.average([folder.step_folder(step) for step in steps])
    replace(model, card=replace(model.card, averaged_steps=tuple(steps), scores=())).save(mean)
    return mean


def report_run(run: Path, device: str = "auto", progress: Progress = QUIET) -> Path:
    """Translate the test set of a run again, and write the report of the run.

    Parameters
    ----------
    run
        The folder of the run. Its validation data is translated if it has no test set. If it has neither any more, the
        report has no sentences.
    device
        "auto", "cpu", "cuda" or another device of torch.
    progress
        Receives notes about the model and missing data.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    ModelError
        If the run or its model is missing or damaged.
    DataError
        If the folder is not a run.
    """
    folder = resolve_model_folder(run)
    from dragoman.visualization.figures.figure import has_matplotlib
    from dragoman.visualization.report.report import write_report
    from dragoman.visualization.report.run_facts import read_run

    read_run(run)  # raises for a folder that is not a run, before anything is loaded or translated
    progress.note(f"the model is {folder}")
    if not has_matplotlib():
        progress.note("matplotlib is not installed, so the report has no figures")
    return write_report(run, _translate_test(run, Model.load(folder, device), progress))


def _translate_test(run_folder: Path, model: Model, progress: Progress) -> "ReportedTest | None":
    """Translate the test set of a run, or else its validation data. Returns None if both are gone."""
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.run_facts import open_stored_part

    for part, name in (("test", "test"), ("dev", "validation")):
        if store := open_stored_part(run_folder, part):
            test = translate_part(Translator.from_models([model]), name, store, progress)
            bleu = all_metrics(tokenizer_for(model.config.data.tgt_lang))[0]
            counts = counts_of(bleu, test.outputs, test.references)
            return replace(test, warnings=warnings_about(counts, test.outputs, test.references))
    progress.note("the run's test and validation data are gone, so the report has no sentences")
    return None


def translate_part(translator: "Translator", name: str, store: "PairStore", progress: Progress) -> "ReportedTest":
    """Translate a part of a run's data, named "test" or "validation", for the report. It has no warnings yet."""
    from dragoman.visualization.report.report import ReportedTest
    from dragoman.visualization.report.report_sentences import cross_attention_of

    sources, references = store.texts()
    with progress.counting(f"translating the {name} data", len(sources)):
        outputs = translator.translate(sources)
    alignment = cross_attention_of(translator.models[0])
    return ReportedTest(name, sources, references, outputs, (), translator.translate, alignment)
