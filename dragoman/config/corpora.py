"""Read and check ``[[corpora]]``: the corpora of a run that has several, from TOML files, flags and Python."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dragoman.config.fields import did_you_mean, quote_value
from dragoman.config.settings import CORPUS_SETTINGS, Config, CorpusSettings
from dragoman.errors import ConfigError

_FILES = ("data", "src", "tgt")
_FIELDS = {setting.name.rstrip("_"): setting for setting in CORPUS_SETTINGS.values()}


def read_corpora(tables: object, origin: str = "") -> tuple[CorpusSettings, ...]:
    """The corpora of a list of tables, each as TOML or Python gives it. `origin` is the name of the file.

    A table with a list of files stands for one corpus per file, with the same settings. Raises ConfigError, which names
    the place, such as ``corpora[1].weight``.
    """
    if isinstance(tables, list | tuple) and not tables:
        raise ConfigError(f"`corpora`{_in(origin)} is empty. List at least one corpus, or leave it out.")
    if not isinstance(tables, list | tuple):
        raise ConfigError(
            f"`corpora`{_in(origin)} must be a list of tables, but is {quote_value(tables)}. Write [[corpora]] and the "
            "settings of one corpus below it, or in Python, a list of dicts."
        )
    return tuple(corpus for number, table in enumerate(tables) for corpus in _read(table, number, origin))


def corpora_tables(corpora: tuple[CorpusSettings, ...]) -> list[dict[str, Any]]:
    """The tables that `read_corpora` reads, without default values."""
    return [
        {
            name: value
            for name, setting in _FIELDS.items()
            if (value := getattr(corpus, setting.name)) != setting.default or name == "weight"
        }
        for corpus in corpora
    ]


def num_controls(config: Config) -> int:
    """The most control tokens before a source: one for a tag, and one that marks back-translation."""
    return any(corpus.tag for corpus in config.corpora) + any(corpus.synthetic for corpus in config.corpora)


def corpora_problems(config: Config, label: Callable[[str], str]) -> Iterator[str]:
    """Yield what is wrong with corpora and between them, a sentence each. `label` returns the name of a key."""
    seen: dict[str, str] = {}
    for number, corpus in enumerate(config.corpora):
        key, named = f"corpora[{number}]", f" ({' and '.join(filter(None, corpus.files))})" * any(corpus.files)
        if [bool(corpus.data), bool(corpus.src), bool(corpus.tgt)] not in ([True, False, False], [False, True, True]):
            yield f"{label(key)}{named} must have one file as `data`, or two aligned files as `src` and `tgt`."
        for path in map(os.path.abspath, corpus.files):
            if seen.get(path, key) != key:
                yield (
                    f"{label(key)}{named} has a file that `{seen[path]}` has too. Leave one out. To see its pairs more "
                    "often, give it a larger `weight`."
                )
            seen[path] = key
        if corpus.tag and not re.fullmatch(r"\w[\w.-]{0,39}", corpus.tag):
            yield (
                f"{label(f'{key}.tag')}{named} must be a word of at most 40 letters, digits, dots and hyphens, but is "
                f"{quote_value(corpus.tag)}. Choose another name."
            )
        if corpus.from_ >= corpus.until:
            yield (
                f"{label(f'{key}.from')}{named} must be less than `until` ({corpus.until:g}), but is {corpus.from_:g}. "
                "Change one of them."
            )
        if corpus.max_tokens > config.data.max_tokens:
            yield (
                f"{label(f'{key}.max_tokens')}{named} must be at most `data.max_tokens` ({config.data.max_tokens}), "
                f"but is {corpus.max_tokens}. Lower it, or raise `data.max_tokens`."
            )
        if 0 < corpus.max_length_ratio < 1:
            yield (
                f"{label(f'{key}.max_length_ratio')}{named} must be 0 or at least 1, but is "
                f"{corpus.max_length_ratio:g}. Raise it."
            )
    yield from _gaps(config.corpora)
    staged = any((one.from_, one.until) != (0, 1) for one in config.corpora)
    if staged and (config.data.replay or config.data.replay_src):
        yield "`corpora` must not have `from` or `until` beside replay data. List that data as one of the corpora."
    if config.corpora and all(one.synthetic for one in config.corpora) and not (config.data.dev or config.data.dev_src):
        yield (
            f"{label('corpora[0].synthetic')} is set, as in all other corpora, so none can be used to validate. "
            "Set `data.dev` to a file."
        )
    least, longest = config.data.max_tokens + num_controls(config), config.model.longest_text(1 << 40)
    if num_controls(config) and longest < least:
        yield (
            f"{label('model.max_positions')} must be at least {least + 1}, for `data.max_tokens` and control tokens "
            f"of tagged and synthetic corpora, but is {longest + 1}. Raise it, or lower `data.max_tokens`."
        )


def _gaps(corpora: tuple[CorpusSettings, ...]) -> Iterator[str]:
    """Yield a problem for each part of the run in which no corpus is used."""
    for moment in sorted({0.0, *(corpus.until for corpus in corpora)} - {1.0} if corpora else ()):
        if not any(corpus.from_ <= moment < corpus.until for corpus in corpora):
            yield (
                f"`corpora` has no corpus to use after {moment:.0%} of the run. Lower a `from`, or raise an `until`."
            )


def _read(table: object, number: int, origin: str) -> list[CorpusSettings]:
    place = f"`corpora[{number}]`{_in(origin)}"
    if isinstance(table, CorpusSettings):
        return [table]
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place} must be a table, but is {quote_value(table)}. Give its files and settings by name.")
    if unknown := next((name for name in table if name not in _FIELDS), None):
        raise ConfigError(
            f"`corpora[{number}].{unknown}`{_in(origin)} is not a setting of a corpus."
            + (did_you_mean(str(unknown), _FIELDS) or f" These are: {', '.join(_FIELDS)}.")
        )
    files = {name: _listed(table[name]) for name in _FILES if table.get(name)}
    named = f" ({' and '.join(str(each[0]) for each in files.values())})" if files else ""
    checked: dict[str, list[Any]] = {
        setting.name: [setting.check(each, f"`corpora[{number}].{name}`{named}{_in(origin)}") for each in values]
        for name, setting in _FIELDS.items()
        if (values := files.get(name, [table[name]] if name in table else []))
    }
    counts = {name: len(listed) for name, listed in files.items()}
    if counts.keys() == {"src", "tgt"} and counts["src"] != counts["tgt"]:
        raise ConfigError(f"{place} has {counts['src']} files in `src`, but {counts['tgt']} in `tgt`. Pair them.")
    count = max(counts.values(), default=1)
    return [CorpusSettings(**{name: each[n % len(each)] for name, each in checked.items()}) for n in range(count)]


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _in(origin: str) -> str:
    return f" in {origin}" if origin else ""
