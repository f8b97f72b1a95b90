"""Write dragoman/config/keyword_types.py, the settings as typed keywords, from the definition of the settings.

Run ``python tools/keyword_types.py`` after every change of a setting.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from dragoman.config import CORPUS_KEYS, SETTINGS, Setting

TARGET = Path(__file__).parents[1] / "dragoman" / "config" / "keyword_types.py"
TYPES = {
    **{key: "_Sentences" if key.endswith(("_src", "_tgt")) else "_Pairs" for key in CORPUS_KEYS},
    "data.train": "_Pairs | Mapping[str, object] | TrainSettings",  # `train` is also the name of a table
    "train.start_from": "_PathName",
    "data.columns": "str | Sequence[str | int]",
}
"""The types of settings that Python accepts as more than the text or number in a configuration file."""
HEAD = '''\
"""Settings as typed keywords: type checkers and editors know each name, its type and its choices.

tools/keyword_types.py writes this file. Nothing imports it at run time. A setting has two names: without its table if
the name is unique, and with its table. A table can also be a dict or a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict

from dragoman.config import (
    CorpusSettings,
    InferenceSettings,
    ModelSettings,
    TokenizerSettings,
    TrainSettings,
    ValidateSettings,
)

_PathName = str | PathLike[str]
_Sentences = _PathName | Iterable[str]
_Pairs = _PathName | Iterable[Mapping[str, object] | Sequence[str]]


'''
CLASSES = '''\
class _UniqueInference(TypedDict, total=False):
    """Settings of [inference] whose names no other table has."""

{unique}

class _TableInference(TypedDict, total=False):
    """Settings of [inference] with the name of the table."""

    inference: Mapping[str, object] | InferenceSettings
{table}

class TranslateKeywords(_UniqueInference, total=False):
    """Keywords of the methods of `dragoman.Translator`: settings of [inference]."""

{shared}

class InferenceKeywords(TranslateKeywords, _TableInference, total=False):
    """Keywords of `dragoman.evaluate`, `compare` and `inspect`: settings of [inference]."""


class TrainKeywords(_UniqueInference, _TableInference, total=False):
    """Keywords of `dragoman.train`, `dragoman.plan` and `Run.resume`: all settings."""

    tokenizer: Mapping[str, object] | TokenizerSettings
    model: Mapping[str, object] | ModelSettings
    validate: Mapping[str, object] | ValidateSettings
    corpora: Sequence[Mapping[str, object] | CorpusSettings]
{train}'''


def source() -> str:
    """The text of the file."""
    count = Counter(setting.name for setting in SETTINGS.values())
    inference = [setting for setting in SETTINGS.values() if setting.table == "inference"]
    rest = [setting for setting in SETTINGS.values() if setting.table != "inference"]
    return HEAD + CLASSES.format(
        unique=_lines((each.name, each) for each in inference if count[each.name] == 1),
        table=_lines((f"inference_{each.name}", each) for each in inference),
        shared=_lines((each.name, each) for each in inference if count[each.name] > 1),
        train=_lines((name, each) for each in rest for name in _names(each, is_unique=count[each.name] == 1)),
    )


def _lines(named: Iterable[tuple[str, Setting]]) -> str:
    return "".join(f"    {name}: {type_of(setting)}\n" for name, setting in named)


def _names(setting: Setting, is_unique: bool) -> list[str]:
    return [setting.name] * is_unique + [f"{setting.table}_{setting.name}"]


def type_of(setting: Setting) -> str:
    """The annotation of a setting."""
    if setting.choices:
        choices = ", ".join(f'"{choice}"' for choice in setting.choices)
        return f"Literal[{choices}]"
    return TYPES.get(setting.key, setting.kind.__name__)


if __name__ == "__main__":
    TARGET.write_text(source(), encoding="utf-8")
