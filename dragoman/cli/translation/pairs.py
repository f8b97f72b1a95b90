"""The source side of a file with pairs, as input of ``dragoman translate``."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from dragoman.cli.arguments import Options
from dragoman.display import say
from dragoman.errors import ConfigError, DataError
from dragoman.languages import check_language, name_with_code
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.json_lines import JsonFields, only_text
from dragoman.text.corpus.layout import layout_of
from dragoman.text.corpus.opening import format_of, open_corpus
from dragoman.text.corpus.tables import Table
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.doctor.languages import are_similar, contradiction, language_of_side
from dragoman.workflows.models import LoadedTranslator

_LOOKED_AT_TEXTS = 1000


def source_side(path: Path, options: Options, model: LoadedTranslator) -> Iterator[str]:
    """The source texts of a file with pairs. Raises ConfigError if it is not clear which they are."""
    try:
        corpus = _open_pairs(path, options, model)
    except (ConfigError, DataError) as error:
        hint = "`--columns SOURCE` names the source alone, and `--format text` translates the lines as they are."
        raise type(error)(f"{error} {hint}") from None
    if options.columns and corpus.format == "tmx":
        raise ConfigError("`--columns` has no effect on TMX. Name its languages with `--src-lang` and `--tgt-lang`.")
    texts = _read_sources(corpus)
    first = list(islice(texts, _LOOKED_AT_TEXTS))
    is_chosen = options.columns or (options.src_lang and not isinstance(corpus.fields, Table))
    _check_side(first, corpus, model, bool(is_chosen))
    return chain(first, texts)


def _open_pairs(path: Path, options: Options, model: LoadedTranslator) -> Corpus:
    columns = options.columns or (only_text(path, options.text_encoding()) if format_of(path) == "jsonl" else "")
    is_one = columns != "" and "," not in columns
    layout = layout_of(options.encoding or "", "" if is_one else columns, options.header or "auto")
    if is_one:
        layout, fields = replace(layout, columns=(columns, columns)), JsonFields(False, columns, columns)
        with suppress(DataError):  # a record may have a single text
            next(fields.pairs(path, layout.encoding, ReadReport()), None)
            return Corpus((path,), "jsonl", "", "", layout.encoding, fields)
    src_lang = check_language(options.src_lang, "`--src-lang`") or model.src_lang
    tgt_lang = check_language(options.tgt_lang, "`--tgt-lang`") or model.tgt_lang
    return open_corpus(path, src_lang=src_lang, tgt_lang=tgt_lang, layout=layout)


def _read_sources(corpus: Corpus) -> Iterator[str]:
    report = ReadReport()
    yield from (pair.src for pair in corpus.pairs(report))
    if report.skipped:
        say(f"{report.skipped:,} of the {report.units:,} units of {corpus} lack a text and have no line.")


def _check_side(texts: list[str], corpus: Corpus, model: LoadedTranslator, is_chosen: bool) -> None:
    """Raise ConfigError if the texts are clearly in the language that the model writes.

    Texts in a third language, or texts that the user has chosen (`is_chosen`), only cause a warning.
    """
    found = contradiction(language_of_side(texts, model.src_lang), model.src_lang, model.tgt_lang)
    if not found:
        return
    looks, source = name_with_code(found), name_with_code(model.src_lang)
    message = f"the source side of {corpus} looks like {looks}, but the model translates from {source}"
    if is_chosen or not are_similar(found, model.tgt_lang):
        say(f"warning: {message}")
        return
    fields, other = corpus.fields, f"--src-lang {corpus.tgt_lang} --tgt-lang {corpus.src_lang}"
    if fields is not None:
        other = f"--columns {fields.columns[1] + 1 if isinstance(fields, Table) else fields.tgt}"
    raise ConfigError(f"{message}. Name the source: `{other}`.")
