"""Knowledge distillation: a run learns the predictions of teachers in addition to its text (`train --teacher`).

Teachers are trained models that all have the same tokenizers, which the run takes over. Their predictions for the
training pairs (soft targets) are computed once and kept in the run's folder, so the run continues without the teachers.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dragoman.bundle import Model, resolve_model_folder
from dragoman.bundle.folder import read_settings
from dragoman.config import Config, TokenizerSettings, TrainSettings
from dragoman.config.fields import quote_value
from dragoman.data.prepare import PreparedData
from dragoman.data.soft_targets import SoftTargets
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.step.memory import give_back_memory, memory_errors
from dragoman.training.teaching import ask_teachers
from dragoman.workflows.progress import Progress
from dragoman.workflows.training.fine_tuning import check_settings, describe_model

_FOLDER = "teachers"


def paths_of(teachers: str) -> list[str]:
    """Split `train.teachers` at its commas. Raises ConfigError if a name is empty."""
    paths = [path.strip() for path in teachers.split(",")]
    if "" in paths:
        raise ConfigError(
            f"`train.teachers` is {quote_value(teachers)}, where a name is missing. "
            "Put one comma between two models or runs."
        )
    return paths


def tokenizer_settings_of(teachers: str) -> TokenizerSettings:
    """Return the settings of the teachers' tokenizer, without BPE dropout: soft targets need fixed ids."""
    _, folder = _folders(teachers)[0]
    return replace(read_settings(folder).tokenizer, bpe_dropout=0.0)


def check_teachers(config: Config) -> None:
    """Raise ConfigError if a teacher has another tokenizer or other languages, or cannot read the longest pairs."""
    for path, folder in _folders(config.train.teachers):
        check_settings(config, folder, ("tokenizer",), f"the teacher {path}", "`train.teachers` (--teacher)")
        model = read_settings(folder).model
        longest = model.max_positions - 1
        if model.positions == "learned" and config.data.max_tokens > longest:
            raise ConfigError(
                f"`data.max_tokens` is {config.data.max_tokens}, but the teacher {path} has positions for "
                f"{longest} only. Set it to {longest}, or train without this teacher."
            )


def tokenizers_of(teachers: str, student: TokenizerPair | None = None) -> TokenizerPair:
    """Return the tokenizers that teachers and student share. Raises ModelError if they differ."""
    first, pair = "the student", student
    for path, folder in _folders(teachers):
        own = TokenizerPair.load(folder)
        if pair is None:
            first, pair = path, own
        elif not own.same_as(pair):
            raise ModelError(
                f"the teacher {path} and {first} have different tokenizers, so their tokens do not match. "
                "Use teachers that were trained on the same text, each with another `train.seed`."
            )
    assert pair is not None
    return pair


def soft_targets_of(
    train: TrainSettings,
    data: PreparedData,
    folder: Path,
    recorded: tuple[str, ...],
    is_first: bool,
    progress: Progress,
) -> SoftTargets | None:
    """Load the soft targets of the teachers from `folder`, or compute them. Returns None if the run has no teachers.

    `recorded` are the descriptions of the teachers in the card of a run that continues. Such a run needs its teachers
    again only if their soft targets are lost. Of several processes, only the first computes. Raises DataError if a
    teacher is not the recorded one, and ResourceError if memory runs out.
    """
    if not train.teachers:
        return None
    found = None
    with suppress(DataError):
        found = SoftTargets(folder / _FOLDER, data.train)
    if found and (found.teachers == recorded or not is_first):
        return found
    folders = _folders(train.teachers)
    names = tuple(describe_model(path, each) for path, each in folders)
    if recorded and names != recorded:
        other = next(new for new, old in zip(names, recorded, strict=False) if new != old)
        raise DataError(
            f"{folder / _FOLDER} is damaged and cannot be computed again: {other} is another model than the one that "
            "this run started with. Restore that model, or start a new run: another --out, with `--from` this run."
        )
    if found and found.teachers == names:
        return found
    tokenizers_of(train.teachers, data.tokenizers)
    whom = "the teacher" if len(names) == 1 else f"{len(names)} teachers"
    stage = f"running {whom} on {len(data.train):,} pairs"
    with memory_errors(stage, "Use smaller teachers, or fewer."):
        models = [Model.load(each, train.device).transformer for _, each in folders]
        targets = ask_teachers(models, names, data.train, folder / _FOLDER, lambda pairs: progress.stage(stage, pairs))
        device = models[0].device
    del models
    give_back_memory(device)
    return targets


def _folders(teachers: str) -> Sequence[tuple[str, Path]]:
    """Return each teacher's path with its model folder. Raises ModelError."""
    return [(path, resolve_model_folder(Path(path))) for path in paths_of(teachers)]
