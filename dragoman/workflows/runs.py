"""Work on a run after training: an average of its checkpoints, a new report, and the verification of two promises.

The promises (`dragoman verify`): translations do not depend on batches, padding or caches, and a run that is killed
resumes exactly.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from dragoman.bundle import Model, resolve_model_folder
from dragoman.errors import CheckpointError, DataError, DragomanError, has_torch, require_torch
from dragoman.evaluation.metrics import all_metrics, counts_of, tokenizer_for, warnings_about
from dragoman.files import check_new_folder
from dragoman.text.lines import read_lines
from dragoman.training.run.frozen_settings import check_resumable
from dragoman.training.run.run_folder import RunFolder
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.data.store import PairStore
    from dragoman.inference.translator import Translator
    from dragoman.inference.verification import Check
    from dragoman.training.verification import ResumeReport
    from dragoman.visualization.report.report import ReportedTest

_CHECKPOINTS = "checkpoints"
_LONGEST_INVENTED = 30


def average_run(run: Path, last: int = 5, out: str | os.PathLike[str] | None = None) -> Path:
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
    mean = run / "mean" if out is None else check_new_folder(out)
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
    from dragoman.visualization.arguments import has_matplotlib
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
    from dragoman.visualization.report.report import ReportedTest, cross_attention_of

    sources, references = store.texts()
    with progress.counting(f"translating the {name} data", len(sources)):
        outputs = translator.translate(sources)
    alignment = cross_attention_of(translator.models[0])
    return ReportedTest(name, sources, references, outputs, (), translator.translate, alignment)


class ResumingNotVerified(DragomanError):
    """The run cannot be resumed, so whether it resumes exactly is unknown."""


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """A model to verify, and how much of it.

    Parameters
    ----------
    model
        A model folder or a run.
    src
        A file of texts to translate, one per line. None takes the validation data of the run, or else random tokens of
        the model's vocabulary.
    encoding
        The encoding of `src`, or "" to detect it.
    sentences
        The most texts to translate.
    steps
        Number of training steps for the test of resuming. 0 skips this test, as does a model folder that is not a run.
    device
        "auto", "cpu", "cuda" or another device of torch.
    """

    model: Path
    src: Path | None = None
    encoding: str = ""
    sentences: int = 200
    steps: int = 20
    device: str = "auto"

    @property
    def resumes(self) -> bool:
        """Whether to test resuming: the model is a run, and `steps` is not 0."""
        return bool(self.steps) and (self.model / _CHECKPOINTS).is_dir()


@dataclass(frozen=True, slots=True)
class TranslationChecks:
    """The model folder, the number of texts and their origin, and the result for each way to translate.

    The reference of the checks is "definition", or "one by one" without torch.
    """

    model: Path
    num_texts: int
    origin: str
    reference: str
    checks: "tuple[Check, ...]"


def verify_translating(request: VerificationRequest, progress: Progress = QUIET) -> TranslationChecks:
    """Translate texts in different batches, orders and engines, and compare with a slow reference search.

    Parameters
    ----------
    request
        The model and the texts.
    progress
        Receives a note about the work. Its `result` receives each `Check` as soon as it is done.

    Returns
    -------
    TranslationChecks
        One `Check` for each way to translate and each beam size.

    Raises
    ------
    DataError
        If `src` is empty or cannot be read.
    ModelError
        If the model is missing or damaged.
    ResumingNotVerified
        If resuming is to be tested later, but the run cannot be resumed. This is checked before the work.
    """
    folder = resolve_model_folder(request.model)
    from dragoman.inference.verification import ONE_BY_ONE, verify_translations

    model = Model.load(folder, request.device)
    texts, origin = _texts(request, model)
    if request.resumes:
        try:
            check_resumable(request.model)
        except DragomanError as error:
            raise ResumingNotVerified(str(error)) from None
    beam_sizes = sorted({1, max(2, model.config.inference.beam_size)})
    progress.note(f"the model is {folder}; translating {len(texts):,} texts ({origin}) in different ways")
    checks: list[Check] = []
    for check in verify_translations(model, texts, beam_sizes):
        progress.result(check)
        checks.append(check)
    reference = "definition" if has_torch() else ONE_BY_ONE
    return TranslationChecks(folder, len(texts), origin, reference, tuple(checks))


def verify_resuming(request: VerificationRequest, progress: Progress = QUIET) -> "ResumeReport | None":
    """Train copies of a run with and without a kill, and compare them bit for bit.

    Parameters
    ----------
    request
        The run, and the number of steps to train. The run itself is not changed.
    progress
        Receives a note about the work.

    Returns
    -------
    ResumeReport or None
        The differences found. None if `request.resumes` is false.

    Raises
    ------
    ResumingNotVerified
        If the run has no intact checkpoint, if training fails, or without torch.
    """
    if not request.resumes:
        return None
    try:
        require_torch("resuming a run")
        from dragoman.training.verification import verify_resume

        copies = f"copies of {request.model} for {request.steps} steps"
        progress.note(f"training {copies}, once without and once with a kill")
        return verify_resume(request.model, request.steps)
    except DragomanError as error:
        raise ResumingNotVerified(str(error)) from None


def _texts(request: VerificationRequest, model: Model) -> tuple[list[str], str]:
    """Return the texts and their origin: the file, the run's validation data, or the model's vocabulary."""
    from dragoman.visualization.report.run_facts import open_stored_part

    most = request.sentences
    if request.src:
        lines = read_lines(request.src, encoding=request.encoding)
        texts = [text for text, _ in zip(lines, range(most), strict=False)]
        if not texts:
            raise DataError(f"{request.src} is empty. Give at least one line to translate.")
        return texts, str(request.src)
    if store := open_stored_part(request.model, "dev"):
        return list(store.texts(most)[0]), "the run's validation data"
    rng, tokenizer = Random(most), model.tokenizers.src
    lengths = (rng.randint(1, min(_LONGEST_INVENTED, model.config.data.max_tokens)) for _ in range(most))
    rows = [[rng.randrange(4, tokenizer.vocab_size) for _ in range(length)] for length in lengths]
    return [tokenizer.detokenize(row) for row in rows], "random tokens of its vocabulary"
