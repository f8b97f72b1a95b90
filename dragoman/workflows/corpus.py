"""Checking a corpus before training on it."""

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
    """The files of a corpus to check: one file with both sides, or two aligned files; and so for dev and test sets."""

    train: Sequence[str]
    dev: Sequence[str] = ()
    test: Sequence[str] = ()
    src_lang: str = ""
    tgt_lang: str = ""
    layout: Layout = PLAIN


def check_files(files: CorpusFiles, progress: Progress = QUIET) -> Examination:
    """Everything that can be known of a corpus before training on it. Raises ConfigError, DataError.

    The stages are noted.
    """
    languages = check_language(files.src_lang, "`--src-lang`"), check_language(files.tgt_lang, "`--tgt-lang`")
    corpus = _open("SRC TGT", files.train, languages, files.layout)
    languages = corpus.src_lang, corpus.tgt_lang
    parts = {"dev": files.dev, "test": files.test}
    held_out = {name: _open(f"`--{name}`", part, languages, files.layout) for name, part in parts.items() if part}
    return examine(corpus, held_out, progress.note)


def _open(name: str, files: Sequence[str], languages: tuple[str, str], layout: Layout) -> Corpus:
    src_lang, tgt_lang = languages
    if len(files) > 2:
        raise ConfigError(f"{name} is {len(files)} files. Give one file with both sides, or two aligned files.")
    if len(files) == 2:
        return open_aligned(*files, src_lang=src_lang, tgt_lang=tgt_lang, encoding=layout.encoding)
    return open_corpus(files[0], src_lang=src_lang, tgt_lang=tgt_lang, layout=layout)
