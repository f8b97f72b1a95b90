"""`dragoman.translate_document`."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from dragoman.config.fields import did_you_mean
from dragoman.display import one_line
from dragoman.errors import ConfigError
from dragoman.files import check_target, partial_path
from dragoman.records import Preserve, Translation
from dragoman.text.documents.document import open_document
from dragoman.text.lines import checked_texts, quote_start
from dragoman.workflows.api.functions import AnyModel, model_request
from dragoman.workflows.api.keywords import check_path, naming_keywords
from dragoman.workflows.api.loading import PathName
from dragoman.workflows.api.notebook import default_progress
from dragoman.workflows.bilingual import check_bilingual, open_review
from dragoman.workflows.documents import check_output, translate_segments, write_document
from dragoman.workflows.models import load_model


class DocumentReading(TypedDict, total=False):
    """Keywords of `translate_document`: how an office file is read."""

    comments: bool
    keep_styles: Collection[str]


@naming_keywords()
def translate_document(
    document: PathName | bytes,
    translator: AnyModel,
    output: PathName | None = None,
    *,
    preserve: Preserve | None = None,
    bilingual: PathName | None = None,
    **reading: Unpack[DocumentReading],
) -> bytes | None:
    """Translate a file: Word (docx), LibreOffice (odt), HTML, subtitles (SubRip, WebVTT), or lines of text.

    Layout, pictures and everything else stay, and so does the format. Paragraphs are translated sentence by sentence.
    Bold words, links and other markup go to the words that they belong to, which the model's word alignment tells.

    Parameters
    ----------
    document : str, Path or bytes
        The file, or its content. The content of an office document tells its format. Of others, the name does.
    translator : Translator, str, Path or Run
        The model, with its settings.
    output : str or Path
        The file to write. An office file is never replaced.
    preserve : Preserve
        Terms, and what to preserve besides.
    bilingual : str or Path
        A file for both sides, to review or to reuse: a page (.html), sentence pairs (.tsv), or a translation memory
        (.tmx). An old file is replaced.
    **reading
        For office files: ``comments=True`` translates comments, too. `keep_styles` has the names of styles whose text
        is not translated, besides those for code.

    Returns
    -------
    bytes or None
        The translated file, if `output` is not given.

    Raises
    ------
    ConfigError
        If an argument is unknown or of the wrong type, or if `output` or `bilingual` cannot be written.
    DataError
        If the file cannot be read, is damaged, or is of a kind that is not read, such as PDF.
    ModelError
        If the model is missing or damaged.
    ResourceError
        If the disk is full.

    Examples
    --------
    >>> translate_document("report.docx", "run", "bericht.docx")
    """
    known = DocumentReading.__annotations__
    for name in reading.keys() - known.keys():
        hint = did_you_mean(name, [*known, "output", "preserve", "bilingual"])
        raise ConfigError(f"`{name}` is not an argument of `translate_document`.{hint}")
    comments, keep_styles = reading.get("comments", False), reading.get("keep_styles", ())
    for name, value, kind in (("preserve", preserve, Preserve | None), ("comments", comments, bool)):
        if not isinstance(value, kind):
            expected = "True or False" if kind is bool else "a `dragoman.Preserve`"
            raise ConfigError(f"`{name}` must be {expected}, but is {one_line(value)}.")
    styles = list(checked_texts(keep_styles, "keep_styles"))
    source = document if isinstance(document, bytes) else check_path("document", document, ", or the bytes of a file")
    target = None if output is None else check_path("output", output)
    pairs = None if bilingual is None else check_path("bilingual", bilingual)
    read = open_document(source, "", comments, styles)
    if target is not None:
        check_target(target, "--output", "translations.txt" if read.kind == "text" else f"translated.{read.kind}")
        check_output(read.kind, "the document", target)
    if pairs is not None:
        check_bilingual(pairs, target)
    for name, path in (("output", target), ("bilingual", pairs), ("bilingual", pairs and partial_path(pairs))):
        if isinstance(source, Path) and path is not None and path.exists() and path.samefile(source):
            raise ConfigError(f"`{name}` is {path}, which is the document. Choose another name.")
    model = load_model(model_request(translator, {}, "translator"))
    preserve = preserve or Preserve()
    preserve = replace(preserve, by_sentence=preserve.by_sentence or read.by_sentence)
    faults, progress = list[Translation](), default_progress()

    def note(answer: Translation) -> None:
        faults.extend([answer] * bool(answer.cut or answer.lost))

    name, languages = "the document" if isinstance(source, bytes) else str(source), (model.src_lang, model.tgt_lang)
    with open_review(pairs, name, languages) as review:
        translated = translate_segments(read, model, preserve, replace(review, note=note), progress)
    if faults:
        count = f"{len(faults):,} translation{'s were' if len(faults) > 1 else ' was'}"
        progress.note(f"{count} cut or lost a part, such as that of {quote_start(faults[0].src)}.")
    if target is None:
        return translated
    write_document(translated, target)
    return None
