"""Checks of a corpus before training on it (`dragoman check`). The checks are in `dragoman.text.doctor`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dragoman.errors import ConfigError
from dragoman.languages import check_language
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.text.corpus.splitting import FingerprintSet
from dragoman.text.doctor.examine import examine
from dragoman.text.doctor.findings import Examination
from dragoman.workflows.progress import QUIET, Progress


def check_files(
    corpora: Sequence[Sequence[str]],
    held_out: Mapping[str, Sequence[str]] = MappingProxyType({}),
    languages: tuple[str, str] = ("", ""),
    layout: Layout = PLAIN,
    progress: Progress = QUIET,
) -> list[Examination]:
    """Examine corpora before training: encodings, lengths, languages, duplicates and leaked test sentences.

    Parameters
    ----------
    corpora
        The training corpora, each one file with both sides, or two aligned files (source, target).
    held_out
        The sets to look for in them, "dev" and "test", each like a corpus, or empty.
    languages
        Codes of the source and target language such as "en". "" takes a language from the files or their names.
    layout
        Columns and encoding of the files.
    progress
        Receives the stages.

    Returns
    -------
    list of Examination
        For each corpus the number of pairs, and the findings with their lines, such as pairs of an earlier corpus.

    Raises
    ------
    ConfigError
        If a language does not exist, if there are too many files, or if a file's format or languages are unknown.
    DataError
        If a file cannot be read.
    """
    src_lang, tgt_lang = map(check_language, languages, ("`--src-lang`", "`--tgt-lang`"))
    opened: list[Corpus] = []
    for files in corpora:
        opened.append(_open("SRC TGT", files, (src_lang, tgt_lang), layout))
        src_lang, tgt_lang = opened[-1].src_lang, opened[-1].tgt_lang
    return check_opened(opened, held_out, layout, progress)


def check_opened(
    corpora: Sequence[Corpus], held_out: Mapping[str, Sequence[str]], layout: Layout, progress: Progress
) -> list[Examination]:
    """Examine open corpora, as `check_files` does. The sets in `held_out` have the languages of the last one."""
    languages = corpora[-1].src_lang, corpora[-1].tgt_lang
    sets = {name: _open(f"`--{name}`", files, languages, layout) for name, files in held_out.items() if files}
    found, earlier = [], dict[str, FingerprintSet]()
    for corpus in corpora:
        with progress.counting("reading the pairs", unit="pairs"):
            found.append(examine(corpus, sets, lambda stage: progress.stage(stage, 0), earlier))
    return found


def _open(name: str, files: Sequence[str], languages: tuple[str, str], layout: Layout) -> Corpus:
    src_lang, tgt_lang = languages
    if len(files) > 2:
        raise ConfigError(
            f"{name} must be one or two files, but is {len(files)}. Give one file with both sides or two aligned files."
        )
    if len(files) == 2:
        return open_aligned(*files, src_lang=src_lang, tgt_lang=tgt_lang, encoding=layout.encoding)
    return open_corpus(files[0], src_lang=src_lang, tgt_lang=tgt_lang, layout=layout)
