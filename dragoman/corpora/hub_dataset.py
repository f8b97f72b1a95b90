"""Open a data set of the Hugging Face hub: find the configuration of two languages, download its files, read them.

The package `datasets` finds the files of a configuration and reads them. The hub's client downloads them into its
cache. `datasets` does not run data sets that are Python scripts. For these, the hub has a copy in Parquet in the branch
`refs/convert/parquet`, with the files of a configuration in ``CONFIGURATION/SPLIT/``.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dragoman.config.fields import did_you_mean
from dragoman.display import html_table
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.exchange.hub import hub_errors
from dragoman.files import disk_errors
from dragoman.languages import is_code
from dragoman.text.corpus.tmx import matches_language
from dragoman.workflows.progress import Progress

_OPUS_BOOKS = (
    "ca-de ca-en ca-hu ca-nl de-en de-eo de-es de-fr de-hu de-it de-nl de-pt de-ru el-en el-es el-fr el-hu en-eo "
    "en-es en-fi en-fr en-hu en-it en-nl en-no en-pl en-pt en-ru en-sv eo-es eo-fr eo-hu eo-it eo-pt es-fi es-fr "
    "es-it es-nl es-no es-pt es-ru fi-fr fi-no fi-pl fr-hu fr-it fr-nl fr-no fr-pl fr-pt fr-ru fr-sv hu-it hu-nl "
    "hu-no hu-pl hu-pt hu-ru it-nl it-pt it-ru it-sv"
)
_IWSLT2017 = "ar-en de-en en-fr en-it en-ja en-ko en-nl en-ro en-zh it-nl it-ro nl-ro"
_SHOWN_PAIRS = 12
_HEADER = ("name", "training pairs", "licence", "languages (in both directions)")


@dataclass(frozen=True, slots=True)
class KnownCorpus:
    """A corpus that has a short name.

    Parameters
    ----------
    name : str
        The short name.
    data_set : str
        The name on the Hugging Face hub.
    pairs : tuple of str
        The pairs of languages, such as "de-en". Each is available in both directions.
    training_pairs : str
        The number of sentence pairs in the training set, or the range over the pairs of languages.
    license : str
        The licence that the card on the hub states.
    """

    name: str
    data_set: str
    pairs: tuple[str, ...]
    training_pairs: str
    license: str

    def _row(self) -> tuple[str, ...]:
        shown, more = self.pairs[:_SHOWN_PAIRS], len(self.pairs) - _SHOWN_PAIRS
        return self.name, self.training_pairs, self.license, " ".join(shown) + (f" and {more} more" * (more > 0))


class KnownCorpora(tuple[KnownCorpus, ...]):
    """Corpora that have short names. Displays itself as a table.

    Parameters
    ----------
    iterable : iterable of KnownCorpus
        The corpora.
    """

    def __repr__(self) -> str:
        rows = [_HEADER, *(corpus._row() for corpus in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return html_table(_HEADER, [corpus._row() for corpus in self])


_KNOWN = KnownCorpora(
    KnownCorpus(name, data_set, tuple(pairs.split()), size, licence)
    for name, data_set, pairs, size, licence in (
        ("opus_books", "Helsinki-NLP/opus_books", _OPUS_BOOKS, "1,090 to 137,151", "other"),
        ("iwslt2014", "bbaaaa/iwslt14-de-en", "de-en", "171,721", "cc-by-nc-nd-4.0"),
        ("iwslt2017", "IWSLT/iwslt2017", _IWSLT2017, "206,112 to 237,240", "cc-by-nc-nd-4.0"),
        ("wmt14", "wmt/wmt14", "cs-en de-en fr-en hi-en ru-en", "33,000 to 41 million", "unknown"),
        ("wmt15", "wmt/wmt15", "cs-en de-en fi-en fr-en ru-en", "960,000 to 41 million", "unknown"),
        ("wmt16", "wmt/wmt16", "cs-en de-en fi-en ro-en ru-en tr-en", "206,000 to 4.5 million", "unknown"),
        ("wmt17", "wmt/wmt17", "cs-en de-en fi-en lv-en ru-en tr-en zh-en", "206,000 to 25 million", "unknown"),
        ("wmt18", "wmt/wmt18", "cs-en de-en et-en fi-en ru-en tr-en zh-en", "206,000 to 42 million", "unknown"),
        (
            "wmt19",
            "wmt/wmt19",
            "cs-en de-en fi-en fr-de gu-en kk-en lt-en ru-en zh-en",
            "11,670 to 39 million",
            "unknown",
        ),
        ("tatoeba", "Helsinki-NLP/tatoeba", "en-mr eo-nl es-gl es-pt fr-ru", "3,135 to 195,161", "cc-by-2.0"),
        ("multi30k", "bentrevett/multi30k", "en-de", "29,000", "not stated"),
    )
)


def names() -> KnownCorpora:
    """List the corpora that `fetch` knows by a short name. It also fetches other data sets, by their name on the hub.

    Returns
    -------
    KnownCorpora
        A tuple of records with the name, languages, size and licence of each corpus.

    Examples
    --------
    >>> [corpus.name for corpus in names()][:3]
    ['opus_books', 'iwslt2014', 'iwslt2017']
    """
    return _KNOWN


_CONVERTED = "refs/convert/parquet"
_CONVERTED_FILE = re.compile(r"([^/]+)/(?:partial-)?([^/]+)/\d+\.parquet")
_CONTAINER = "translation"
_MOST_LISTED = 70
_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class WantedCorpus:
    """A data set by its name on the hub, and the part of it to fetch. "" and () mean that the user set nothing."""

    data_set: str
    src_lang: str
    tgt_lang: str
    config: str = ""
    columns: tuple[str, ...] = ()
    revision: str = ""

    @property
    def languages(self) -> str:
        """Both languages, such as "en-de"."""
        return f"{self.src_lang}-{self.tgt_lang}"


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A configuration of a data set whose files are on this machine. `revision` is the commit on the hub.

    `splits` has the texts of both sides of each split, in order. An empty `license` means that the card states none.
    """

    config: str
    revision: str
    license: str
    splits: Mapping[str, Iterator[tuple[str, str]]]


def open_dataset(wanted: WantedCorpus, progress: Progress) -> HubDataset:
    """Download the files of a data set. `progress` receives what is downloaded.

    Raises DataError if it cannot be downloaded, ConfigError if it does not have the languages, and ResourceError if the
    disk is full.
    """
    name = wanted.data_set
    check = "Check the name and the revision." if wanted.revision else "Check the name."
    if name not in {corpus.data_set for corpus in names()}:
        check = did_you_mean(name, [corpus.name for corpus in names()]).strip() or check
    with hub_errors(name, DataError, "Check the connection, and repeat the command.", check):
        import datasets  # noqa: F401 (before the network: it may be missing)
        from huggingface_hub import HfApi, constants

        info: Any = HfApi().dataset_info(name, revision=wanted.revision or None)
        converted = _converted_info(name, info)
        revision, stated = (converted or info).sha, (info.card_data or {}).get("license") or []
        license_ = stated if isinstance(stated, str) else ", ".join(stated)
        with disk_errors(Path(constants.HF_HUB_CACHE)):
            config, builder = _find_files(wanted, revision, converted)
            progress.note(f"{name}, configuration {config}, commit {revision[:12]}, licence {license_ or 'not stated'}")
            if any("/partial-" in url for urls in builder.config.data_files.values() for url in urls):
                progress.note("the copy in Parquet has only the first part of this data set")
            builder.config.data_files = {
                split: [_download(url, progress) for url in urls] for split, urls in builder.config.data_files.items()
            }
            progress.end_stage()
    with _read_errors(wanted.data_set):
        splits = builder.as_streaming_dataset()
    return HubDataset(config, revision, license_, {name: _read_pairs(rows, wanted) for name, rows in splits.items()})


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    """Turn errors of pyarrow, `datasets` and its readers into a DataError."""
    try:
        yield
    except DragomanError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0].rstrip(".")
        raise DataError(f"{name} cannot be read ({reason}). Choose another data set.") from error


def _find_files(wanted: WantedCorpus, revision: str, converted: Any) -> tuple[str, Any]:
    """The configuration, and the builder of `datasets` that knows the addresses of its files."""
    from datasets import get_dataset_config_names, load_dataset_builder
    from datasets.data_files import EmptyDatasetError
    from datasets.exceptions import DataFilesNotFoundError, DatasetNotFoundError

    name = wanted.data_set
    if converted is not None:
        files = _converted_files(name, converted)
        config = choose_config(list(files), wanted)
        return config, load_dataset_builder("parquet", data_files=files[config])
    try:
        config = choose_config(get_dataset_config_names(name, revision=revision), wanted)
        return config, load_dataset_builder(name, config, revision=revision)
    except (EmptyDatasetError, DataFilesNotFoundError):
        raise DataError(f"{name} has no files that `datasets` reads. Choose another data set.") from None
    except DatasetNotFoundError:  # its name was found before
        raise DataError(
            f"{name} cannot be downloaded without permission. Accept its conditions on its page of the hub, and log in "
            "with `hf auth login`."
        ) from None


def _converted_info(name: str, info: Any) -> Any:
    """The branch with the Parquet copy of a data set that is a script, or None for other data sets."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    files = {sibling.rfilename for sibling in info.siblings}
    script = f"{name.rpartition('/')[2]}.py"
    if script not in files:
        is_copy = "README.md" not in files and any(map(_CONVERTED_FILE.fullmatch, files))
        return info if is_copy else None
    try:
        return HfApi().dataset_info(name, revision=_CONVERTED)
    except RevisionNotFoundError:
        raise DataError(
            f"{name} is a Python script ({script}), which `datasets` does not run, and the hub has no copy of it in "
            "Parquet. Choose another data set."
        ) from None


def _converted_files(name: str, info: Any) -> dict[str, dict[str, list[str]]]:
    """The addresses of files by configuration and split."""
    files: dict[str, dict[str, list[str]]] = {}
    for sibling in sorted(info.siblings, key=lambda sibling: str(sibling.rfilename)):
        if found := _CONVERTED_FILE.fullmatch(sibling.rfilename):
            splits = files.setdefault(found[1], {})
            splits.setdefault(found[2], []).append(f"hf://datasets/{name}@{info.sha}/{sibling.rfilename}")
    return files


def _download(url: str, progress: Progress) -> str:
    """The local path of a file of the hub, which is downloaded into the client's cache."""
    from huggingface_hub import hf_hub_download

    found = re.fullmatch(r"hf://datasets/([^@]+)@([0-9a-f]+)/(.+)", url)
    if found is None:  # an address outside the hub, which the card may name
        return url
    data_set, revision, file = found.groups()
    bar = _bar_class(f"downloading {file}", progress)
    return hf_hub_download(data_set, file, repo_type="dataset", revision=revision, tqdm_class=bar)


def _bar_class(stage: str, progress: Progress) -> Any:
    """A class of bars for the hub's client, which report to `progress` instead of drawing themselves."""
    from tqdm import tqdm

    class StageBar(tqdm):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **(settings | {"disable": True}))

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            progress.stage(stage, int(self.n) // 1000, int(self.total or 0) // 1000 or None, "kB")

        def update_transfer(self, n: float) -> None:
            """Ignore the compressed bytes. With this method, the client's Xet protocol uses one bar, not two."""

        def set_transfer_postfix_str(self, *_: object, **__: object) -> None:
            """Ignore the speed."""

    return StageBar


def choose_config(configs: list[str], wanted: WantedCorpus) -> str:
    """The configuration of the wanted languages, in either order. Raises ConfigError if there is none."""
    if wanted.config:
        if wanted.config not in configs:
            hint = did_you_mean(wanted.config, configs)
            has = f"It has {_listed(configs)}.{hint}"
            raise ConfigError(f"{wanted.data_set} has no configuration {wanted.config}. {has}")
        return wanted.config
    pairs = {config: pair for config in configs if (pair := _pair_in(config))}
    for src, tgt in ((wanted.src_lang, wanted.tgt_lang), (wanted.tgt_lang, wanted.src_lang)):
        found = [
            name for name, (one, two) in pairs.items() if matches_language(one, src) and matches_language(two, tgt)
        ]
        if found:
            return min(found, key=len)
    if pairs:
        named = sorted({"-".join(pair) for pair in pairs.values()})
        raise ConfigError(f"{wanted.data_set} does not have {wanted.languages}. It has {_listed(named)}.")
    if len(configs) == 1:
        return configs[0]
    raise ConfigError(
        f"{wanted.data_set} has several configurations: {_listed(configs)}. Choose one with `--config` (`config`)."
    )


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MOST_LISTED])
    return f"{shown} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else shown


def _pair_in(config: str) -> tuple[str, str] | None:
    """The languages in the name of a configuration, such as iwslt2017-en-de, en_de and zh_Hans-en."""
    for separator in "-_":
        found = [pair for pair in pairwise(config.split(separator)) if all(map(is_code, pair))]
        if found:
            return found[-1]
    return None


def _read_pairs(rows: Any, wanted: WantedCorpus) -> Iterator[tuple[str, str]]:
    """The texts of both sides of a split, in order. A text that is missing is "".

    Raises ConfigError if the columns of the texts are not clear, and DataError if a file is damaged.
    """
    with _read_errors(wanted.data_set):
        columns, nested = ("", ""), False
        for batch in rows.iter(_BATCH_ROWS):
            if not any(columns):
                row = {key: values[0] for key, values in batch.items()}
                nested = not wanted.columns and isinstance(row.get(_CONTAINER), Mapping)
                columns = _choose_columns(row[_CONTAINER] if nested else row, wanted)
            if nested:
                sides = [[(texts or {}).get(column) for texts in batch[_CONTAINER]] for column in columns]
            else:
                sides = [batch[column] for column in columns]
            for src, tgt in zip(*sides, strict=True):
                if not (isinstance(src or "", str) and isinstance(tgt or "", str)):
                    where = " and ".join(columns)
                    raise DataError(
                        f"{wanted.data_set} has no texts in {where}. Choose others with `--columns` (`columns`)."
                    )
                yield src or "", tgt or ""


def _choose_columns(texts: Mapping[str, Any], wanted: WantedCorpus) -> tuple[str, str]:
    """The keys of the source and the target: what the user set, or else the languages."""
    languages = wanted.columns or (wanted.src_lang, wanted.tgt_lang)
    same = (lambda key, name: key == name) if wanted.columns else matches_language
    found = [next((key for key in texts if same(key, name)), None) for name in languages]
    if found[0] is None or found[1] is None:
        missing = " and ".join(name for name, key in zip(languages, found, strict=True) if key is None)
        raise ConfigError(
            f"{wanted.data_set} has no column `{_CONTAINER}` or columns with {missing}. It has {_listed(texts)}. "
            "Name the columns of source and target with `--columns SRC,TGT` (`columns`)."
        )
    return found[0], found[1]
