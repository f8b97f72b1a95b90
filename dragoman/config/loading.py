"""Read a configuration from a recipe, TOML files and flags, in that order, and write it as TOML.

Explicit values always win over the recipe and over the values of `model.preset`, whatever their order.

TOML files may be untrusted: `parse_toml` checks the size and the length of keys first.
"""

import difflib
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from dragoman.config import names
from dragoman.config.checking import check_config, check_shape
from dragoman.config.corpora import corpora_tables, read_corpora
from dragoman.config.fields import SettingValue, did_you_mean, quote_value
from dragoman.config.settings import CORPORA, PRESETS, SETTINGS, TABLES, Config, CorpusSettings, settings_of
from dragoman.errors import ConfigError, SettingsWarning

_OF_TEXT = (
    *(f"data.{part}{side}" for part in ("dev", "test") for side in ("", "_src", "_tgt")),
    "data.src_lang",
    "data.tgt_lang",
)
"""Settings that rarely fit another training text."""

MOST_TOML_BYTES = 1 << 18
_MOST_KEY_PARTS = 16
# tomllib stores every prefix of a dotted key, so a key of 20,000 parts takes 2.4 GB. The pattern matches at most 256
# characters of a quoted part, which keeps the search linear. Few longer parts fit into `MOST_TOML_BYTES`.
_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,256}+"|'[^'\n]{0,256}+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_KEY_PARTS}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and the keys (such as ``train.max_steps``) that files or flags set explicitly."""

    config: Config
    given: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Given:
    value: SettingValue | tuple[CorpusSettings, ...]
    place: str


_CORPORA = "corpora"
_TRAIN = tuple(f"data.train{side}" for side in ("", "_src", "_tgt"))


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The settings of files and flags, before the base for all other settings is known. Each value is in its range."""

    _given: Mapping[str, _Given]
    notes: tuple[str, ...] = ()
    """Warnings about settings that you may not want, one sentence each."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys that files and flags set."""
        return frozenset(self._given)

    def over(self, base: Config) -> LoadedConfig:
        """The configuration, with all other settings from `base`. Raises ConfigError for a contradiction."""
        config = self.unchecked_over(base)
        check_config(config, self._place)
        return LoadedConfig(config, self.keys)

    def _place(self, key: str) -> str:
        """Where a setting is, such as "`corpora[1].tag` in run.toml"."""
        if key.startswith(f"{_CORPORA}[") and _CORPORA in self._given:
            return self._given[_CORPORA].place.replace(f"`{_CORPORA}`", f"`{key}`", 1)
        return self._given[key].place if key in self._given else f"`{key}`"

    def unchecked_over(self, base: Config) -> Config:
        """The configuration without the check for contradictions, for a temporary `base`."""
        return _merge(self._given, base)


def load_config(paths: Sequence[Path], overrides: Mapping[str, str] = {}, base: Config = Config()) -> Config:
    """The configuration from TOML files, flags and `base`. See `read_config`."""
    return read_config(paths, overrides, base).config


def read_config(paths: Sequence[Path], overrides: Mapping[str, str] = {}, base: Config = Config()) -> LoadedConfig:
    """Read TOML files in order, then flags. Later values win; all other settings come from `base`.

    Raises ConfigError as `read_given` does, and for contradictions.
    """
    return read_given(paths, overrides).over(base)


def read_given(
    paths: Sequence[Path], overrides: Mapping[str, str], corpora: tuple[CorpusSettings, ...] = ()
) -> GivenSettings:
    """Read TOML files in order, then flags and the `corpora` that they give. Later values win.

    A corpus given as one file replaces the same corpus given as two files, and vice versa. Several corpora replace the
    training file, and vice versa. `overrides` maps keys such
    as ``train.max_steps`` to the text of the flag. Raises ConfigError for unknown names, wrong types and values out of
    range. The message names the file, the setting, the value, and the most similar name.
    """
    sources = [_given_by_table(_read_toml(path), str(path)) for path in paths]
    flags = {key: _parse_flag(key, text) for key, text in with_current_keys(overrides).items()}
    if corpora:
        flags[_CORPORA] = _Given(corpora, f"`{_CORPORA}`")
    given: dict[str, _Given] = {}
    notes: list[str] = []
    for source in (*sources, flags):
        if _CORPORA in source and _is_named(source, *_TRAIN):
            one = next(key for key in _TRAIN if _is_named(source, key))
            raise ConfigError(
                f"{source[one].place} must not be set beside [[corpora]]. Write it as one of them, or leave it out."
            )
        notes += _note_other_text(given, source)
        for key in _replaced_keys(source):
            given.pop(key, None)
        given |= source
    return GivenSettings(given, tuple(notes))


def with_current_keys(overrides: Mapping[str, str]) -> dict[str, str]:
    """The flags by current keys. Raises ConfigError if one setting has both its old and its new name."""
    current: dict[str, str] = {}
    for key, text in overrides.items():
        if (new := names.current_key(key)) != key:
            if new in overrides:
                raise ConfigError(f"`{flag_of(key)}` and `{flag_of(new)}` are one setting. Leave the old name out.")
            note = f"`{flag_of(key)}` is now `{flag_of(new)}`; the old name still works."
            warnings.warn(note, SettingsWarning, stacklevel=1)
        current[new] = text
    return current


def _parse_flag(key: str, text: str) -> _Given:
    if removed := names.describe_removed(key, "flag"):
        raise ConfigError(f"`{flag_of(key)}` {removed}")
    if key not in SETTINGS:
        raise ConfigError(f"`--{key}` is not a setting.{_nearest_setting(key)}")
    place = f"`{flag_of(key)}`"
    return _Given(SETTINGS[key].parse(text, place), place)


def _replaced_keys(source: Mapping[str, _Given]) -> Iterator[str]:
    """The keys that a source replaces: one file replaces two aligned files of the same corpus, and vice versa."""
    if _CORPORA in source:
        yield from _TRAIN
    elif _is_named(source, *_TRAIN):
        yield _CORPORA
    for corpus in CORPORA:
        one, *two = (f"data.{corpus}{side}" for side in ("", "_src", "_tgt"))
        if _is_named(source, one):
            yield from two
        elif _is_named(source, *two):
            yield one


def _note_other_text(given: Mapping[str, _Given], source: Mapping[str, _Given]) -> Iterator[str]:
    """Yield a note if a source replaces the training text, but settings for the earlier text still apply."""
    text = (*_TRAIN, _CORPORA)
    before, after = (tuple(one[key].value for key in text if _is_named(one, key)) for one in (given, source))
    if not before or not after or before == after:
        return
    if not _is_named(source, "data.train", _CORPORA) and len(after) < 2:
        return  # a new side may belong to the old one, such as translations by a teacher
    kept = [key for key in _OF_TEXT if _is_named(given, key) and key not in source]
    if kept:
        was = next(given[key].place for key in text if _is_named(given, key))
        now = next(source[key].place for key in text if _is_named(source, key))
        yield (
            f"{now} replaces {was}, but {', '.join(given[key].place for key in kept)} still "
            f"appl{'ies' if len(kept) == 1 else 'y'}. Set your own values, or empty strings."
        )


def _is_named(given: Mapping[str, _Given], *keys: str) -> bool:
    """True if a source sets one of the keys to a non-empty value."""
    return any(key in given and given[key].value != "" for key in keys)


def config_from_dict(table: Mapping[str, Any], origin: str, keep_training: bool = False) -> Config:
    """The configuration of a trained model. Raises ConfigError, with `origin` as the name of the file.

    Checks each value and the shape of the model. Other rules between settings are for new runs only. Removed settings
    are ignored. With `keep_training`, for a run that may continue, they must have their neutral values.
    """
    given = _given_by_table(table, origin, "A run with it cannot continue." if keep_training else None)
    config = _merge(given, Config())
    check_shape(config.model, lambda key: given[key].place if key in given else f"`{key}`")
    return config


def dump_config(config: Config) -> str:
    """All settings as TOML. `load_config` reads an equal configuration from it."""
    tables = asdict(config)
    del tables[_CORPORA]
    if config.corpora:
        tables[_CORPORA] = corpora_tables(config.corpora)
    return tomli_w.dumps(tables)


def flag_of(key: str) -> str:
    """The flag of a key: ``--train.max-steps``."""
    return "--" + key.replace("_", "-")


def _merge(given: Mapping[str, _Given], base: Config) -> Config:
    tables: dict[str, Any] = {}
    replaced = set(_replaced_keys(given))
    corpora = () if _CORPORA in replaced else base.corpora
    tables[_CORPORA] = given[_CORPORA].value if _CORPORA in given else corpora
    for table in TABLES:
        values: dict[str, Any] = {
            setting.name: given[setting.key].value for setting in settings_of(table) if setting.key in given
        }
        start = getattr(base, table)
        if table == "data":  # one file replaces two files in the base, and vice versa
            values = {key.partition(".")[2]: "" for key in replaced - {_CORPORA}} | values
        if table == "model" and values.get("preset", start.preset) != start.preset:
            start = replace(
                PRESETS[str(values["preset"])], tie=start.tie
            )  # ties depend on the vocabularies, not on the preset
        tables[table] = replace(start, **values)
    return Config(**tables)


def _given_by_table(
    content: Mapping[str, Any], origin: str, if_removed: str | None = "Remove the line."
) -> dict[str, _Given]:
    """The settings of a file. `if_removed` is the advice for a removed setting; None: such settings are ignored."""
    given: dict[str, _Given] = {}
    old_keys = []
    if _CORPORA in content:
        given[_CORPORA] = _Given(read_corpora(content[_CORPORA], origin), f"`{_CORPORA}` in {origin}")
    tables = {name: values for name, values in content.items() if name != _CORPORA}
    for written, value in _entries(tables, origin, if_removed):
        key, place = names.current_key(written), f"`{written}` in {origin}"
        if key in given:
            old = next(each for each in names.RENAMED if names.RENAMED[each] == key)
            raise ConfigError(f"`{old}` and `{key}` in {origin} are one setting. Remove `{old}`, the old name.")
        if key not in SETTINGS:
            raise ConfigError(f"{_quoted(key)} in {origin} is not a setting.{_nearest_setting(key)}")
        given[key] = _Given(SETTINGS[key].check(value, place), place)
        if key != written:
            old_keys.append(written)
    if old_keys:
        warnings.warn(names.describe_renamed(old_keys, origin), SettingsWarning, stacklevel=1)
    return given


def _entries(content: Mapping[str, Any], origin: str, if_removed: str | None) -> Iterator[tuple[str, object]]:
    """The keys of a file, such as ``train.max_steps``, and their values, without removed settings."""
    for table, values in content.items():
        if table not in TABLES and not isinstance(values, Mapping):
            raise ConfigError(f"{_quoted(table)} in {origin} is not a setting.{_nearest_setting(table)}")
        if table not in TABLES:
            hint = did_you_mean(table, TABLES) or f" The tables are {', '.join(TABLES)}."
            raise ConfigError(f"{_quoted(table)} in {origin} is not a table of settings.{hint}")
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"`{table}` in {origin} must be a table, but is {quote_value(values)}. "
                f"Write [{table}] and its settings below it."
            )
        for name, value in values.items():
            key = f"{table}.{name}"
            if key not in names.REMOVED:
                yield key, value
            elif if_removed is not None:
                names.check_removed(key, value, f"`{key}` in {origin}", if_removed)


def _nearest_setting(key: str) -> str:
    """A hint with the most similar setting, in the same table or else in any."""
    table, _, name = key.rpartition(".")
    if hint := names.name_hint(name, SETTINGS):
        return hint
    names_there = [setting.name for setting in settings_of(table)]
    elsewhere = {setting.name: setting.key for setting in reversed(SETTINGS.values())}
    if name not in elsewhere and (near := difflib.get_close_matches(name, names_there, n=1)):
        return f" Did you mean `{table}.{near[0]}`?"
    if name and (near := difflib.get_close_matches(name, list(elsewhere), n=1)):
        return f" Did you mean `{elsewhere[near[0]]}`?"
    return did_you_mean(key, SETTINGS) or " See `dragoman train --help-all`."


def _quoted(name: str) -> str:
    printable = name if name.isprintable() else quote_value(name)
    return f"`{printable[:80]}`"


def _read_toml(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    try:
        return parse_toml(text, str(path))
    except ValueError as error:
        raise ConfigError(_syntax_error(path, text, str(error))) from None


def _syntax_error(path: Path, text: str, reason: str) -> str:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", reason)
    line = found[1] if found else str(text.rstrip().count("\n") + 1)
    reason = re.sub(r" \(at [^)]*\)$", "", reason)
    column = f", column {found[2]}" if found else ""
    hint = "Write `name = value`, with strings in quotes."
    if path.suffix != ".toml":
        hint = "Each flag takes one file, and a file without a flag must be a configuration."
    return f"{path} line {line}{column} is not TOML: {reason}. {hint}"


def _read_text(path: Path) -> str:
    try:
        content = toml_bytes(path)
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist.{_nearest_file(path)}") from None
    except IsADirectoryError:
        hint = " Give the path of a TOML file."
        if (path / "checkpoints").is_dir():
            hint = f" To continue this run, repeat its command, or add `--out {path}` to yours."
        elif (path / "config.toml").is_file():
            hint = f" Did you mean `{path / 'config.toml'}`?"
        raise ConfigError(f"{path} is a folder, not a TOML file.{hint}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{path} cannot be read: {reason}. Check the path and its permissions.") from None
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line} is not UTF-8 text. Save the file as UTF-8.") from None


def _nearest_file(path: Path) -> str:
    names = [other.name for other in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean `{path.with_name(near[0])}`?" if near else " Give the path of a TOML file."


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. Raises OSError, and the errors of `parse_toml`."""
    return parse_toml(toml_bytes(path), str(path))


def toml_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises ConfigError for more than `MOST_TOML_BYTES`, and OSError."""
    with path.open("rb") as stream:
        content = stream.read(MOST_TOML_BYTES + 1)
    check_size(len(content), str(path))
    return content


def check_size(size: int, origin: str) -> None:
    """Raise ConfigError for more than `MOST_TOML_BYTES` bytes."""
    if size > MOST_TOML_BYTES:
        raise ConfigError(f"{origin} has more than {MOST_TOML_BYTES} bytes, the limit for settings. Check the path.")


def parse_toml(content: bytes | str, origin: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises ConfigError, which names `origin`, for a text that is too large or too deeply nested, and ValueError for
    invalid TOML or UTF-8.
    """
    check_size(len(content), origin)
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if _LONG_KEY.search(text):
        raise ConfigError(
            f"{origin} has a key of more than {_MOST_KEY_PARTS} parts. Write `[table]`, and `name = value` below it."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{origin} is nested too deeply. Use numbers, strings, true or false as values.") from None
