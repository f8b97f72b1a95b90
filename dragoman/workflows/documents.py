"""Translate documents: the texts of a file, with the file around them unchanged."""

import gzip
from dataclasses import replace
from html import unescape
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.files import is_device, is_packed, write_file
from dragoman.languages import language_code
from dragoman.records import Details, Escape, Preserve, Translation
from dragoman.text.documents.document import Document
from dragoman.text.documents.kinds import OFFICE, kind_of_name
from dragoman.text.documents.markers import GAP, MarkedText, is_gap, plain_text, text_with_gaps
from dragoman.workflows.bilingual import Review
from dragoman.workflows.models import LoadedTranslator
from dragoman.workflows.progress import QUIET, Progress


def translate_segments(
    document: Document,
    model: LoadedTranslator,
    preserve: Preserve,
    review: Review,
    progress: Progress = QUIET,
    stage: str = "translating",
) -> bytes:
    """Translate a document that was read.

    Parameters
    ----------
    document
        The document.
    model
        The translator. Its languages, if both are known, are declared in the file.
    preserve
        What to preserve. The escape is that of the document.
    review
        Receives the translation of every segment as plain text, with lost terms and cut outputs.
    progress
        Receives the notes about the document, and how many segments are translated.
    stage
        What the progress calls the work.

    Returns
    -------
    bytes
        The translated file.

    Raises
    ------
    DataError
        If a part of the file that is not text, such as a picture, is damaged.
    """
    for note in document.notes:
        progress.note(note)
    with progress.counting(stage, len(document.segments), "segments"):
        preserve = replace(preserve, escape=document.escape)
        answers = model.translator.translate_marked(document.segments, preserve, Details(flags=review.needs_flags))
    review.totals["kept"] += document.num_kept
    for segment, answer in zip(document.segments, answers, strict=True):
        review.add(_plain(segment, answer, document.escape))
    languages = language_code(model.src_lang), language_code(model.tgt_lang)
    return document.write([answer.text for answer in answers], languages if all(languages) else None)


def _plain(segment: MarkedText, answer: Translation, escape: Escape) -> Translation:
    """The translation as plain text: without the markers of its segment and without escapes.

    Its `parts` are the sentences that are whole, without kept text in them: ("", "") if none is.
    """
    text = plain_text(segment, answer.text, escape, GAP)
    lost = answer.lost if escape is str else tuple(map(unescape, answer.lost))
    gaps = [marker.start for marker in segment.markers if is_gap(marker)]
    whole, stop = list[tuple[str, str]](), 0
    for src, tgt in answer.parts or ((answer.src, text),) if gaps else ():
        start = max(answer.src.find(src, stop), stop)
        stop = start + len(src)
        whole += [(src, tgt)] * (not any(start <= gap <= stop for gap in gaps))
    return replace(
        answer,
        src=text_with_gaps(segment),
        candidates=tuple(replace(one, text=text) for one in answer.candidates[:1]),
        parts=tuple(whole or [("", "")]) if gaps else answer.parts,
        lost=lost,
    )


def write_document(content: bytes, path: Path) -> None:
    """Write a translated file, packed if its name ends in .gz. Raises ResourceError if that fails."""
    write_file(path, gzip.compress(content, mtime=0) if is_packed(path) else content)


def check_output(kind: str, name: str, output: Path) -> None:
    """Raise ConfigError if the translation of the file `name` must not be written to `output`, a file or a new name.

    `kind` is one of `DOCUMENTS`, or another name for text. People edit translated documents, so no office file is
    replaced. With the ending of another format, it could not be opened.
    """
    if kind in OFFICE and output.is_file():
        raise ConfigError(f"`--output` is {output}, which exists already. Choose another name, or remove it.")
    ending = kind_of_name(output)
    if kind in OFFICE and (ending is None or ending.name != kind) and not is_device(output):
        example = output.with_suffix(f".{kind}")
        raise ConfigError(
            f"`--output` is {output}, but {name} is a {kind} file, and so is its translation. Use {example}."
        )
    if ending and ending.name != kind and not ending.is_text:
        raise ConfigError(f"`--output` is {output}, but the translation of {name} is text. Change the ending.")
