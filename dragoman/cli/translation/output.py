"""The output of ``dragoman translate``: windows of lines, streamed words, documents, and the formats of a line."""

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Any, BinaryIO, cast

from dragoman.cli.translation.notes import Notes
from dragoman.cli.translation.sources import InputLines
from dragoman.display import json_text
from dragoman.errors import DataError
from dragoman.inference.options import Details, Preserve
from dragoman.records import Translation
from dragoman.workflows.models import LoadedTranslator

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_LONGEST_NAME = 60


def translate_windows(
    source: InputLines, model: LoadedTranslator, notes: Notes, preserve: Preserve, details: Details
) -> Iterator[list[Translation]]:
    """Translate lines as they arrive, window by window. Notes about single lines go to `notes`.

    Raises DataError if the number of prefixes differs from the number of lines.
    """
    number, prefixes = 0, source.prefixes
    for texts in source.windows(notes.invalid):
        beginnings = list(islice(prefixes, len(texts))) if prefixes is not None else None
        if beginnings is not None and len(beginnings) < len(texts):
            count = number + len(beginnings)
            lines = f"only {count} line{'s' * (count != 1)}, fewer than {source.name}"
            raise DataError(f"{source.prefix_file} has {lines}. Give one prefix per line.")
        window = model.translator.translate_detailed(texts, preserve, details, beginnings, number)
        for line, translation in enumerate(window, start=number + 1):
            notes.line(line, translation)
        yield window
        number += len(texts)
    if prefixes is not None and next(prefixes, None) is not None:
        raise DataError(
            f"{source.prefix_file} has more lines than {source.name}, which has {number}. Give one prefix per line."
        )


def stream_lines(
    source: InputLines, output: BinaryIO, model: LoadedTranslator, notes: Notes, preserve: Preserve
) -> None:
    """Translate lines as they arrive, and write every word at once. Notes about single lines go to `notes`."""
    options = {"protect": preserve.protect, "by_sentence": preserve.by_sentence}
    for number, text in enumerate(chain.from_iterable(source.windows(notes.invalid)), start=1):
        parts = model.translator.stream(text, terms=preserve.terms, **options)
        notes.line(number, _write_parts(parts, output))


def _write_parts(parts: Generator[str, None, Translation], output: BinaryIO) -> Translation:
    """Write the parts of a translation on one line, with spaces for line breaks, and return the translation."""
    while True:
        try:
            part = next(parts)
        except StopIteration as end:
            output.write(b"\n")
            output.flush()
            return cast(Translation, end.value)
        output.write(_LINE_BREAK.sub(" ", part).encode())
        output.flush()


def translate_document(
    stream: BinaryIO, name: str, kind: str, model: LoadedTranslator, notes: Notes, preserve: Preserve
) -> bytes:
    """The translated file, whose declarations of language and encoding follow. Notes about its texts go to `notes`.

    `kind` is one of `DOCUMENTS`. Raises DataError if the file is not UTF-8.
    """
    from dragoman.inference.preservation.markup import translate_markup, translate_srt
    from dragoman.text.documents.markup import MarkupRules, update_declarations

    content = stream.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name} line {line} has 0x{content[error.start]:02x}, which is not UTF-8. Set `--encoding`, or save the "
            "file as UTF-8."
        ) from None

    def report(translation: Translation) -> None:
        """Note a fault, with the start of the text as its name, because a page has no useful lines."""
        text = translation.src
        notes.faults(repr(text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"), translation)

    try:
        if kind == "html":
            text = update_declarations(text, model.src_lang, model.tgt_lang)
            pages = translate_markup(model.translator, [text], MarkupRules(), preserve, report)
            return pages[0].encode()
        return translate_srt(model.translator, text, preserve, report).encode()
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def line_format(name: str, with_flags: bool) -> Callable[[Translation], str]:
    """The function that writes a translation as a line, for a value of ``--format``."""
    return json_line if name == "jsonl" else flagged_line if with_flags else text_line


def text_line(translation: Translation) -> str:
    """The translation on one line, with spaces for line breaks. An alignment follows ``|||``, in Pharaoh format."""
    text = _LINE_BREAK.sub(" ", translation.text)
    if translation.alignment is None:
        return text
    return f"{text} ||| {' '.join(f'{src}-{tgt}' for src, tgt in translation.alignment)}"


def flagged_line(translation: Translation) -> str:
    """`text_line`, a tab, and the flags, separated by commas. No tab follows it, but the text may have tabs."""
    return f"{text_line(translation)}\t{','.join(translation.flags)}"


def json_line(translation: Translation) -> str:
    """The translation with scores, tokens, flags and candidates, as one JSON object on one line.

    ``score``, ``log_prob``, ``tokens`` and ``token_log_probs`` belong to the first of ``candidates``. An empty line has
    none of them. ``alignment``, if requested, has pairs of source and target word. ``lost`` has the protected spans and
    terms that are missing or repeated.
    """
    candidates = [_candidate(asdict(candidate)) for candidate in translation.candidates]
    best = candidates[0] if candidates else {"translation": ""}
    rest: dict[str, Any] = {"segments": translation.segments, "cut": translation.cut, "flags": translation.flags}
    rest |= {"lost": translation.lost, "candidates": candidates}
    if translation.alignment is not None:
        rest["alignment"] = translation.alignment
    return json_text({"src": translation.src, **best, **rest})


def _candidate(fields: dict[str, Any]) -> dict[str, Any]:
    text = _LINE_BREAK.sub(" ", fields.pop("text"))
    return {"translation": text, "score": fields.pop("score"), "log_prob": fields.pop("log_prob"), **fields}
