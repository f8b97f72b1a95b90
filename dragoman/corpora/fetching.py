"""`fetch` and `phrasebook`: sentence pairs as files for `dragoman train`, with a record of where they come from.

`fetch` gets them from a data set of the Hugging Face hub, and `phrasebook` from a grammar, without a network.

Each split becomes two text files with one sentence per line: ``train.en`` and ``train.de``. A line break inside a text
becomes a space, so that the files stay aligned. Pairs without a text on one side are left out.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from html import escape
from pathlib import Path
from typing import Any

from dragoman.corpora.hub_dataset import HubDataset, WantedCorpus, choose_config, names, open_dataset
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.display import html_table, one_line
from dragoman.errors import ConfigError, DataError, ResourceError
from dragoman.files import disk_errors, remove_leftovers, sha256_of, write_folder
from dragoman.languages import language_code, language_name
from dragoman.text.corpus.layout import layout_of
from dragoman.text.lines import join_lines, replace_surrogates
from dragoman.workflows.api.keywords import check_path
from dragoman.workflows.api.notebook import default_progress
from dragoman.workflows.progress import Progress

CORPUS_FILE = "corpus.json"
"""The record in the folder of a corpus."""
_PARTS = {"validation": "dev", "valid": "dev", "val": "dev"}
"""Names of splits on the hub, and the names of their files. Other splits keep their names."""
_COUNT_EVERY = 1000
_HELD_OUT = 200
_SIMILAR = 0.8
"""From this similarity on, a name is a misspelt short name. Other names of the hub are less similar."""


@dataclass(frozen=True, slots=True, repr=False)
class FetchedCorpus(os.PathLike[str]):
    """A corpus in a folder: aligned text files, and the record of where they come from.

    Parameters
    ----------
    path : Path
        The folder.
    data_set : str
        The name of the data set on the Hugging Face hub, or "phrasebook".
    config : str
        The configuration of the data set.
    revision : str
        The commit of the data set, or "" for the phrasebook.
    license : str
        The licence that the card of the data set states, or "".
    src_lang, tgt_lang : str
        The languages.
    pairs : dict
        The number of sentence pairs by part: "train", "dev", "test" or another split of the data set.
    left_out : dict
        The number of pairs that were left out because a side has no text, by part.

    Examples
    --------
    >>> corpus = fetch("opus_books", "en-it")
    >>> corpus.pairs
    {'train': 32332}
    >>> run = dragoman.train(**corpus.files, out="run", max_minutes=30)
    """

    path: Path
    data_set: str
    config: str
    revision: str
    license: str
    src_lang: str
    tgt_lang: str
    pairs: dict[str, int]
    left_out: dict[str, int]

    @property
    def files(self) -> dict[str, str]:
        """The files and languages as keywords of `dragoman.train`.

        Returns
        -------
        dict
            "src" and "tgt", "dev_src" and "dev_tgt", "test_src" and "test_tgt", as far as there are such files, and
            "src_lang" and "tgt_lang".
        """
        found: dict[str, str] = {}
        for part, prefix in (("train", ""), ("dev", "dev_"), ("test", "test_")):
            if part in self.pairs:
                found |= {
                    f"{prefix}{side}": str(path) for side, path in zip(("src", "tgt"), self.sides(part), strict=True)
                }
        return found | {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}

    def sides(self, part: str) -> tuple[Path, Path]:
        """The two files of a part.

        Parameters
        ----------
        part : str
            A key of `pairs`, such as "train".

        Returns
        -------
        tuple of Path
            The file with the sources and the file with the targets.
        """
        return self.path / f"{part}.{self.src_lang}", self.path / f"{part}.{self.tgt_lang}"

    @property
    def _origin(self) -> str:
        """The data set, its configuration, and its commit if it has one."""
        return f"{self.data_set}, {self.config}" + f", commit {self.revision[:12]}" * bool(self.revision)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part} {count:,}" for part, count in self.pairs.items())
        return f"FetchedCorpus({str(self.path)!r}): {self.src_lang} to {self.tgt_lang}, pairs: {sizes}"

    def _repr_html_(self) -> str:
        origin = f"{self._origin}, licence {self.license or 'not stated'}"
        languages = f"{language_name(self.src_lang)} to {language_name(self.tgt_lang)}"
        rows = [
            (part, f"{count:,}", f"{self.left_out[part]:,}", *map(str, self.sides(part)))
            for part, count in self.pairs.items()
        ]
        header = ("part", "pairs", "left out", "source file", "target file")
        return f"<p>{escape(languages)}: {escape(origin)}</p>" + html_table(header, rows)


def fetch(
    name: str,
    langs: str,
    out: str | os.PathLike[str] | None = None,
    *,
    config: str = "",
    columns: Sequence[str] = (),
    revision: str = "",
) -> FetchedCorpus:
    """Fetch a parallel corpus of the Hugging Face hub, or verify the files of an earlier fetch.

    If `out` holds the same corpus, nothing is downloaded: only the checksums of its files are verified. It needs
    the extra ``hub``.

    Parameters
    ----------
    name : str
        A short name from `names`, such as "opus_books", or the name of a data set on the hub, such as
        "Helsinki-NLP/opus-100".
    langs : str
        The source and the target language, such as "en-it". The data set may have them in either order.
    out : str or Path
        The folder to write. By default, ``corpora/NAME.LANGS``.
    config : str
        The configuration of the data set, if its name does not show the languages.
    columns : list of str
        The columns of the sources and the targets. By default, "translation", or columns with the languages as names.
    revision : str
        A commit of the data set. By default, the newest.

    Returns
    -------
    FetchedCorpus
        The files, counts and origin. ``dragoman.train(**corpus.files)`` trains on it.

    Raises
    ------
    ConfigError
        If the data set does not have these languages, or if it is not clear where its texts are.
    DataError
        If the data set cannot be downloaded or read, or if `out` exists and is something else or was changed.
    ResourceError
        If the files cannot be written.

    Examples
    --------
    >>> corpus = fetch("opus_books", "en-it")
    >>> run = dragoman.train(**corpus.files, out="run", max_minutes=30)
    """
    for argument, value, example in (("name", name, "opus_books"), ("langs", langs, "en-it")):
        if not isinstance(value, str):
            raise ConfigError(f'`{argument}` must be a text such as "{example}", but is {value!r:.60}.')
    src_lang, tgt_lang = _languages_of(langs)
    known = {corpus.name: corpus for corpus in names()}
    if near := get_close_matches(name.lower(), known, n=1, cutoff=_SIMILAR) if name not in known else []:
        raise ConfigError(
            f"{name} is not the short name of a corpus. Did you mean `{near[0]}`? Other data sets of the "
            "hub have names such as Helsinki-NLP/opus-100."
        )
    two = layout_of("", columns if isinstance(columns, str) else ",".join(columns), "auto", "`{}`").columns
    data_set = known[name].data_set if name in known else name
    wanted = WantedCorpus(data_set, src_lang, tgt_lang, config, two, revision)
    if name in known and not (config or two or revision):
        choose_config([*known[name].pairs], wanted)
    path = check_path("out", out or Path("corpora") / f"{name.rpartition('/')[2]}.{wanted.languages}")
    progress = default_progress()
    return _open_or_write(path, wanted, lambda: open_dataset(wanted, progress), progress)


def phrasebook(out: str | os.PathLike[str] = "phrasebook", pairs: int = 3000, seed: int = 1) -> FetchedCorpus:
    """Write an English-German corpus of the built-in phrasebook, to learn and to try things without a network.

    A grammar of a hundred sentence patterns writes the pairs. The test and validation sets have 200 pairs each. They
    use the same patterns, so scores are much higher than on real text. No pair is in two parts. If `out` holds the
    same corpus, only the checksums of its files are verified.

    Parameters
    ----------
    out : str or Path
        The folder to write.
    pairs : int
        The number of training pairs.
    seed : int
        The choice of sentences. The same numbers give the same files.

    Returns
    -------
    FetchedCorpus
        The files and counts. ``dragoman.train(**corpus.files)`` trains on it.

    Raises
    ------
    ConfigError
        If an argument is out of range.
    DataError
        If the phrasebook has fewer pairs, or if `out` exists and is something else or was changed.
    ResourceError
        If the files cannot be written.

    Examples
    --------
    >>> corpus = phrasebook(pairs=1000)
    >>> corpus.pairs
    {'train': 1000, 'dev': 200, 'test': 200}
    >>> run = dragoman.train(**corpus.files, out="run", max_minutes=5)
    """
    for name, value, least in (("pairs", pairs, 1), ("seed", seed, 0)):
        if type(value) is not int or value < least:
            raise ConfigError(f"`{name}` must be a whole number of at least {least}, but is {one_line(value)}.")
    config = f"{pairs} pairs, seed {seed}"

    def generate() -> HubDataset:
        found = load_phrasebook().generate(seed, pairs + 2 * _HELD_OUT)
        parts = {"train": found[:pairs], "dev": found[pairs:-_HELD_OUT], "test": found[-_HELD_OUT:]}
        return HubDataset(
            config, "", "Apache-2.0", {part: ((pair.src, pair.tgt) for pair in rows) for part, rows in parts.items()}
        )

    wanted = WantedCorpus("phrasebook", "en", "de", config)
    return _open_or_write(check_path("out", out), wanted, generate, default_progress())


def _open_or_write(
    path: Path, wanted: WantedCorpus, open_data_set: Callable[[], HubDataset], progress: Progress
) -> FetchedCorpus:
    """The corpus in a folder, which is verified if it exists, and written otherwise. Raises as `fetch`."""
    with disk_errors(path), progress.ending_stages():
        if path.exists():
            corpus = _open_existing(path, wanted)
            progress.note(f"{path} is complete, and its checksums are right. Nothing is downloaded")
            return corpus
        _check_writable(path)
        return _write(path, wanted, open_data_set(), progress)


def _check_writable(path: Path) -> None:
    """Raise ResourceError if the folder cannot be made, before the download."""
    parent = next(each for each in path.absolute().parents if each.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ResourceError(f"{path} could not be written: {parent} is not a writable folder. Choose another folder.")


def _languages_of(langs: str) -> tuple[str, str]:
    """Both languages of "en-de" or "zh-Hans-en". Raises ConfigError."""
    codes = langs.split("-")
    for end in range(1, len(codes)):
        src, tgt = "-".join(codes[:end]), "-".join(codes[end:])
        if language_code(src) and language_code(tgt) and src != tgt:
            return src, tgt
    raise ConfigError(f"`langs` must be two languages such as en-de, but is {langs!r}. Write SOURCE-TARGET.")


def _write(path: Path, wanted: WantedCorpus, data_set: HubDataset, progress: Progress) -> FetchedCorpus:
    origin = wanted.data_set, data_set.config, data_set.revision, data_set.license
    corpus = FetchedCorpus(path, *origin, wanted.src_lang, wanted.tgt_lang, pairs={}, left_out={})
    facts = {each.name: getattr(corpus, each.name) for each in fields(corpus) if each.name != "path"}
    remove_leftovers(path.parent)
    with write_folder(path, facts | {"columns": wanted.columns}, CORPUS_FILE) as folder:
        for split, texts in data_set.splits.items():
            part = _part_of(split, data_set.splits)
            kept, dropped = _write_part(folder / part, wanted, texts, progress)
            if kept:  # also in `facts`, which are written at the end
                corpus.pairs[part], corpus.left_out[part] = kept, dropped
        if not corpus.pairs:
            raise DataError(
                f"{wanted.data_set}, configuration {data_set.config}, has no sentence pair. Choose another."
            )
    for part, count in corpus.left_out.items():
        if count:
            progress.note(f"left out {count:,} of {count + corpus.pairs[part]:,} pairs of {part}: a side has no text")
    return corpus


def _part_of(split: str, splits: Mapping[str, object]) -> str:
    """The name of a split's files. Several names for a validation set in one data set stay as they are."""
    part = _PARTS.get(split, split)
    return split if sum(_PARTS.get(each, each) == part for each in splits) > 1 else part


def _write_part(
    stem: Path, wanted: WantedCorpus, texts: Iterator[tuple[str, str]], progress: Progress
) -> tuple[int, int]:
    """Write both files of a part. Returns the number of pairs, and how many were left out. No pair: no files."""
    kept = left_out = 0
    src_path, tgt_path = (stem.with_name(f"{stem.name}.{lang}") for lang in (wanted.src_lang, wanted.tgt_lang))
    with (
        src_path.open("w", encoding="utf-8", newline="\n") as src_file,
        tgt_path.open("w", encoding="utf-8", newline="\n") as tgt_file,
    ):
        for pair in texts:
            src, tgt = (join_lines(replace_surrogates(text)).strip() for text in pair)
            if not (src and tgt):
                left_out += 1
                continue
            src_file.write(f"{src}\n")
            tgt_file.write(f"{tgt}\n")
            kept += 1
            if kept % _COUNT_EVERY == 0:
                progress.stage(f"writing {stem.name}", kept)
    progress.end_stage()
    if not kept:
        src_path.unlink()
        tgt_path.unlink()
    return kept, left_out


def _open_existing(path: Path, wanted: WantedCorpus) -> FetchedCorpus:
    """The corpus in a folder, after its files are verified. Raises DataError if it is not the wanted one."""
    again = "Choose another folder, or remove it."
    try:
        record: dict[str, Any] = json.loads((path / CORPUS_FILE).read_text(encoding="utf-8"))
        files = record.pop("files")
        columns = tuple(record.pop("columns"))
        del record["sha256"]
        corpus = FetchedCorpus(path, **record)
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} exists already, and is not a corpus from `fetch`. {again}") from None
    same = (corpus.data_set, corpus.src_lang, corpus.tgt_lang) == (wanted.data_set, wanted.src_lang, wanted.tgt_lang)
    chosen = ((wanted.config, corpus.config), (wanted.revision, corpus.revision), (wanted.columns, columns))
    if not same or any(want and want != have for want, have in chosen):
        have = f"{corpus._origin}, {corpus.src_lang}-{corpus.tgt_lang}"
        raise DataError(f"{path} exists already. It holds {have}. {again}")
    for name, facts in files.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != facts["bytes"] or sha256_of(file) != facts["sha256"]:
            raise DataError(
                f"{file} is missing or was changed. Remove {path} to fetch it again, or choose another folder."
            )
    return corpus
