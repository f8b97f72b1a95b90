"""Checks of a corpus before training on it (`dragoman check`). The checks are in `dragoman.text.doctor`."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.errors import ConfigError
from dragoman.languages import check_language
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.text.doctor.examine import examine
from dragoman.text.doctor.findings import Examination
from dragoman.workflows.progress import QUIET, Progress


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """The files of a corpus to check.

    Parameters
    ----------
    train
        The training text: one file with both sides, or two aligned files (source, target).
    dev, test
        The validation and test sets, each like `train`, or empty.
    src_lang, tgt_lang
        Language codes such as "en". "" takes the languages from the files or their names.
    layout
        Columns and encoding of the files.
    """

    train: Sequence[str]
    dev: Sequence[str] = ()
    test: Sequence[str] = ()
    src_lang: str = ""
    tgt_lang: str = ""
    layout: Layout = PLAIN


def check_files(files: CorpusFiles, progress: Progress = QUIET) -> Examination:
    """Examine a corpus before training on it: encodings, lengths, languages, duplicates and leaked test sentences.

    Parameters
    ----------
    files
        The corpus, and the sets to look for in it.
    progress
        Receives the stages.

    Returns
    -------
    Examination
        The number of pairs, and the findings with their lines.

    Raises
    ------
    ConfigError
        If a language does not exist, if there are too many files, or if a file's format or languages are unknown.
    DataError
        If a file cannot be read.
    """
    languages = check_language(files.src_lang, "`--src-lang`"), check_language(files.tgt_lang, "`--tgt-lang`")
    corpus = _open("SRC TGT", files.train, languages, files.layout)
    languages = corpus.src_lang, corpus.tgt_lang
    parts = {"dev": files.dev, "test": files.test}
    held_out = {name: _open(f"`--{name}`", part, languages, files.layout) for name, part in parts.items() if part}
    with progress.counting("reading the pairs", unit="pairs"):
        return examine(corpus, held_out, lambda stage: progress.stage(stage, 0))


def _open(name: str, files: Sequence[str], languages: tuple[str, str], layout: Layout) -> Corpus:
    src_lang, tgt_lang = languages
    if len(files) > 2:
        raise ConfigError(
            f"{name} must be one or two files, but is {len(files)}. Give one file with both sides or two aligned files."
        )
    if len(files) == 2:
        return open_aligned(*files, src_lang=src_lang, tgt_lang=tgt_lang, encoding=layout.encoding)
    return open_corpus(files[0], src_lang=src_lang, tgt_lang=tgt_lang, layout=layout)
