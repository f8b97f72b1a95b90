"""The inputs of training: prepared sentence pairs and a starting point."""

from dataclasses import dataclass

from dragoman.config import Config
from dragoman.config.recipes import WARMUP_SHARE
from dragoman.data.prepare import PreparedData, Requirements, prepare
from dragoman.data.store import PairStore
from dragoman.errors import DataError
from dragoman.text.corpus.cleaning import TOO_LONG
from dragoman.training.distributed import SINGLE_PROCESS, Processes
from dragoman.training.run.run_folder import RunFolder
from dragoman.workflows.progress import QUIET, Progress
from dragoman.workflows.training.fine_tuning import StartingPoint, continuation_of, starting_point_of
from dragoman.workflows.training.results import PairCounts
from dragoman.workflows.training.settings import ResolvedRun

_MUCH_TOO_LONG = 0.1


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """Prepared pairs, and optionally a starting point."""

    data: PreparedData
    start: StartingPoint | None = None


def prepare_pairs(
    run: ResolvedRun, processes: Processes = SINGLE_PROCESS, progress: Progress = QUIET
) -> TrainingInputs:
    """Prepare the data, or load what an earlier call prepared. The first process works before the others."""
    config, is_new = run.config, not RunFolder(run.folder).steps()
    start = continuation_of(run.folder) or starting_point_of(config.train.start_from)
    tokenizers = start.tokenizers if start else None
    require = Requirements(full_vocabulary="tokenizer.vocab_size" in run.given, same_pairs=not is_new)
    folder = run.folder / "data"
    with progress.ending_stages():
        data = processes.call_first_before_others(
            lambda: prepare(config, run.corpora, folder, tokenizers, progress.stage, require)
        )
    return TrainingInputs(data, start)


def report_pairs(data: PreparedData, config: Config, fits_warmup: bool, progress: Progress) -> None:
    """Report the counts of pairs, and note what the user should know before training.

    Notes are about many pairs that are too long, a new run whose warm-up takes much of its steps, and test sets that
    were set after training started.
    """
    test = None if data.test is None else len(data.test)
    progress.result(PairCounts(data.cleaning, len(validation_data(data)), test))
    share = data.cleaning.dropped[TOO_LONG] / max(data.cleaning.read, 1)
    if share >= _MUCH_TOO_LONG:
        progress.note(
            f"{share:.0%} of the pairs are longer than `data.max_tokens` ({config.data.max_tokens}) and are left out. "
            "Split them into sentences, or start a new run with a larger `--data.max-tokens`."
        )
    steps, limit = config.train.warmup_steps, config.train.max_steps
    if fits_warmup and limit and steps > WARMUP_SHARE / 2 * limit:
        progress.note(f"the warm-up is {steps:,} of {limit:,} steps (`train.warmup_steps`)")
    for part in data.late_tests:
        progress.note(
            f"`data.{part}` was set or changed after training started, so the model may have been trained on some of "
            "its sentences. `dragoman evaluate --train` scores without them."
        )


def validation_data(data: PreparedData) -> PairStore:
    """Return the validation pairs. Raises DataError if there are none."""
    if data.dev is None or not len(data.dev):
        raise DataError("There is no validation data. Set `data.dev_fraction` above 0, or `data.dev` to a file.")
    return data.dev
