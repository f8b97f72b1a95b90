"""Verification of two promises (`dragoman verify`).

Translations do not depend on batches, padding or caches, and a run that is killed resumes exactly.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from dragoman.bundle import resolve_model_folder
from dragoman.errors import DataError, DragomanError, has_torch, require_torch
from dragoman.text.lines import read_lines
from dragoman.training.run.frozen_settings import check_resumable
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.inference.verification import Check
    from dragoman.training.verification import ResumeReport

_CHECKPOINTS = "checkpoints"
_LONGEST_INVENTED = 30


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
    from dragoman.bundle import Model
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


def _texts(request: VerificationRequest, model: "Model") -> tuple[list[str], str]:
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
