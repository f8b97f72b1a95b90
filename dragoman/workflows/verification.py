"""Verifying that translations do not depend on batches, padding or caches, and that resuming a run is exact."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from dragoman.errors import DataError, DragomanError
from dragoman.text.lines import read_lines
from dragoman.training.run.frozen_settings import check_resumable
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.inference.verification import Check
    from dragoman.model.trained import TrainedModel
    from dragoman.training.verification import ResumeReport

_CHECKPOINTS = "checkpoints"
_LONGEST_INVENTED = 30


class ResumingNotVerified(DragomanError):
    """Whether a run resumes exactly could not be found out."""


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """A model folder or a run, and how much to verify.

    At most `sentences` texts are translated, which are lines of `src`, or else the model's own. A run is trained for
    `steps` steps with a kill among them; with 0 it is not.
    """

    model: Path
    src: Path | None = None
    encoding: str = ""
    sentences: int = 200
    steps: int = 20
    device: str = "auto"

    @property
    def resumes(self) -> bool:
        """Whether this is a run, which can be resumed, and not a model folder, which nothing continues."""
        return bool(self.steps) and (self.model / _CHECKPOINTS).is_dir()


@dataclass(frozen=True, slots=True)
class TranslationChecks:
    """The model folder, the number of texts and where they are from, and what was found for each way to translate."""

    model: Path
    num_texts: int
    origin: str
    checks: "tuple[Check, ...]"


def verify_translating(request: VerificationRequest, progress: Progress = QUIET) -> TranslationChecks:
    """Translate texts in many ways and compare. `progress.result` receives each `Check` when it is done.

    Raises DataError, ModelError, and ResumingNotVerified before the work if the run cannot be resumed.
    """
    require_model(request.model)
    from dragoman.bundle import resolve_model_folder  # torch: only once the arguments are right
    from dragoman.inference.verification import verify_translations
    from dragoman.model.trained import TrainedModel

    folder = resolve_model_folder(request.model)
    trained = TrainedModel.load(folder, request.device)
    texts, origin = _texts(request, trained)
    if request.resumes:
        try:
            check_resumable(request.model)
        except DragomanError as error:
            raise ResumingNotVerified(str(error)) from None
    beam_sizes = sorted({1, max(2, trained.config.inference.beam_size)})
    progress.note(f"the model is {folder}; translating {len(texts):,} texts ({origin}) in many ways")
    checks: list[Check] = []
    for check in verify_translations(trained, texts, beam_sizes):
        progress.result(check)
        checks.append(check)
    return TranslationChecks(folder, len(texts), origin, tuple(checks))


def verify_resuming(request: VerificationRequest, progress: Progress = QUIET) -> "ResumeReport | None":
    """Whether the run continues exactly after a kill; None if there is no run to resume. Raises ResumingNotVerified."""
    if not request.resumes:
        return None
    from dragoman.training.verification import verify_resume

    progress.note(
        f"training copies of {request.model} for {request.steps} steps, once straight on and once with a kill"
    )
    try:
        return verify_resume(request.model, request.steps)
    except DragomanError as error:
        raise ResumingNotVerified(str(error)) from None


def _texts(request: VerificationRequest, trained: "TrainedModel") -> tuple[list[str], str]:
    """The texts, and where they are from: the file, the run's validation data, or the model's vocabulary."""
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
    rng, tokenizer = Random(most), trained.tokenizers.src
    lengths = (rng.randint(1, min(_LONGEST_INVENTED, trained.config.data.max_tokens)) for _ in range(most))
    rows = [[rng.randrange(4, tokenizer.vocab_size) for _ in range(length)] for length in lengths]
    return [tokenizer.detokenize(row) for row in rows], "made from its vocabulary"
