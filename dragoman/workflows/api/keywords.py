"""Settings as Python keywords: ``max_minutes=30`` or ``train_max_minutes=30`` for the setting ``train.max_minutes``.

A keyword becomes the text that the command line would read, so Python gets the same checks and the same errors.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path

from dragoman.config import CORPUS_KEYS, SETTINGS, settings_of
from dragoman.config.fields import did_you_mean
from dragoman.config.names import describe_removed, name_hint
from dragoman.config.settings import TABLES
from dragoman.display import one_line
from dragoman.errors import ConfigError, DragomanError

CORPUS_KEYWORDS = {"data": "data.train", "src": "data.train_src", "tgt": "data.train_tgt"}
"""Short names of the settings of the training text: keywords in Python, and flags of the command line."""
# Flags of the command line in a message. Those without a keyword stay, such as `--no-line-check`.
_FLAGS = re.compile(r"`(--(?!no-l)[a-z][^`]*)`")
_LIKE_KEYWORDS = {"--from": "--start-from", "--header": "--header yes", "--no-header": "--header no"}


def check_path(name: str, value: object, others: str = "") -> Path:
    """The path in an argument. Raises ConfigError for other types. `others` are further things that it may be."""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise ConfigError(f"`{name}` must be a path{others}, but is {one_line(value)}.")


def overrides_of_keywords(
    settings: Mapping[str, object], tables: Iterable[str] = (), path_of: Callable[[str, object], Path] = check_path
) -> dict[str, str]:
    """The settings by key, as text, such as ``{"train.max_steps": "100"}``.

    Parameters
    ----------
    settings
        Values by keyword: the last part of a setting's name if it is unique (``max_steps``), or table and name
        (``train_max_steps``, ``train.max_steps``). A table can also be a dict, ``train={"max_steps": 100}``, or a
        record, ``train=TrainSettings(max_steps=100)``, which sets what differs from its defaults. Values are numbers,
        texts, paths, or lists of these. None means that the setting is not given.
    tables
        If not empty, only settings of these tables are known.
    path_of
        Returns the path for the value of a setting that names a corpus, called with its keyword such as `dev_src`.

    Raises
    ------
    ConfigError
        If a keyword is unknown or ambiguous, if two keywords name one setting, or if a value has another type.
    """
    known = [key for key in SETTINGS if not tables or key.partition(".")[0] in tables]
    overrides: dict[str, str] = {}
    for keyword, value in _flatten(settings):
        if value is None:
            continue
        key = _key_of(keyword, known)
        if key in overrides:
            raise ConfigError(f"`{keyword}` and another keyword both set `{key}`. Leave one out.")
        if key in CORPUS_KEYS and not isinstance(value, str):
            names = [short for short, full in CORPUS_KEYWORDS.items() if full == key] or [key.partition(".")[2]]
            value = path_of(names[0], value)
        overrides[key] = _text_of(keyword, value)
    return overrides


def check_paths(name: str, value: object) -> tuple[Path, ...]:
    """The paths in an argument that is one path or a list of paths. Raises ConfigError for other types."""
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(check_path(name, each, " or a list of paths") for each in values)


def _flatten(settings: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for keyword, value in settings.items():
        if keyword in TABLES and is_dataclass(value):  # what differs from the defaults is set
            values = {each.name: getattr(value, each.name, each.default) for each in settings_of(keyword)}
            value = {name: each for name, each in values.items() if each != SETTINGS[f"{keyword}.{name}"].default}
        if isinstance(value, Mapping) and keyword not in CORPUS_KEYWORDS:
            yield from ((f"{keyword}.{name}", each) for name, each in value.items())
        else:
            yield keyword, value


def _key_of(keyword: str, known: list[str]) -> str:
    """The key of a setting. Raises ConfigError if the keyword names none, or several."""
    if keyword in CORPUS_KEYWORDS and CORPUS_KEYWORDS[keyword] in known:
        return CORPUS_KEYWORDS[keyword]
    for key in known:
        if keyword in (key, key.replace(".", "_")):
            return key
    keys = [key for key in known if key.partition(".")[2] == keyword]
    if len(keys) == 1:
        return keys[0]
    if keys:
        names = " or ".join(f"`{key.replace('.', '_')}`" for key in keys)
        raise ConfigError(f"`{keyword}` is the name of {len(keys)} settings. Write {names}.")
    if removed := describe_removed(keyword, "keyword"):
        raise ConfigError(f"`{keyword}` {removed}")
    last_parts = [key.partition(".")[2] for key in known]

    def write(key: str) -> str:
        """The keyword of a key: its last part if that is unique."""
        name = key.rpartition(".")[2]
        return name if last_parts.count(name) < 2 else key.replace(".", "_")

    hint = name_hint(keyword.rpartition(".")[2], ["out", *known] if "train.seed" in known else known, write)
    hint = hint or did_you_mean(keyword, [*last_parts, *(key.replace(".", "_") for key in known)])
    raise ConfigError(f"`{keyword}` is not a setting.{hint}")


def _text_of(keyword: str, value: object) -> str:
    """The value as the command line would read it."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() | tuple():
            return ",".join(_text_of(keyword, each) for each in value)
        case os.PathLike():
            return str(Path(value))
    advice = ' Save it first: `start_from=translator.save("model")`.' if keyword.endswith("start_from") else ""
    raise ConfigError(
        f"`{keyword}` must be a number, a text, a path or a list of these, but is a {type(value).__name__}.{advice}"
    )


@contextmanager
def naming_keywords() -> Iterator[None]:
    """Decorator of a function of the API, whose errors name keywords instead of flags."""
    try:
        yield
    except DragomanError as error:
        error.args = (name_keywords(str(error)),)
        raise


def name_keywords(text: str) -> str:
    """A message with each flag in backticks as a keyword.

    `` `--columns 2,1 --train.seed 2` `` becomes `` `columns="2,1", train_seed=2` ``.
    """
    return _FLAGS.sub(lambda span: f"`{', '.join(map(_keyword_of, re.split(' (?=--[a-z])', span[1])))}`", text)


def _keyword_of(flag: str) -> str:
    name, _, value = _LIKE_KEYWORDS.get(flag, flag)[2:].partition(" ")
    name = name.replace("-", "_")
    short = name.rpartition(".")[2]
    keyword = short if sum(key.endswith(f".{short}") for key in SETTINGS) < 2 else name.replace(".", "_")
    if not re.fullmatch(r"-?[0-9.]+|", value):
        value = value.title() if value in ("true", "false") else '"' + value.strip("'") + '"'
    return keyword + f"={value}" * bool(value)
