"""Parsing that the APIs share: the languages, texts and file of a request.

Most error messages are those of LibreTranslate.
"""

import codecs
import re

from dragoman.serving.files import FileJob
from dragoman.serving.http.decoding import Upload
from dragoman.serving.limits import Refused
from dragoman.serving.service import AUTO, Service
from dragoman.text.documents.kinds import DOCUMENT_ENDINGS, DOCUMENTS, OFFICE, kind_of_archive, kind_of_name

FILE_ENDINGS = (".txt", *DOCUMENT_ENDINGS)
"""How the names of files end that are translated."""
_NOT_IN_NAMES = re.compile(r"[^\w-]+")
_MEDIA_TYPES = {
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}


def parse_languages(service: Service, source: str, target: str) -> tuple[str, str]:
    """The served source language (or AUTO) and target language. Raises Refused if one is missing or not served."""
    source, target = source.lower(), target.lower()
    for name, code in (("source", source), ("target", target)):
        if not code:
            raise Refused(400, f"Invalid request: missing {name} parameter")
    return AUTO if source == AUTO else _find_language(service, source), _find_language(service, target)


def _find_language(service: Service, code: str) -> str:
    found = service.models.find(code)
    if found is None:
        raise Refused(400, f"{code} is not supported")
    return found


def check_texts(service: Service, texts: list[str]) -> list[str]:
    """Return the texts. Raises Refused if they are more, or longer, than the limits allow."""
    settings = service.settings
    longest = max(map(len, texts), default=0)
    for size, most in ((len(texts), settings.max_texts), (longest, settings.max_chars)):
        if size > most:
            raise Refused(400, f"Invalid request: request ({size}) exceeds text limit ({most})")
    return texts


def parse_file(service: Service, upload: object, languages: tuple[str, str], client: bytes) -> FileJob:
    """An uploaded file, to be started. The content of an office file tells its kind, and the name that of others.

    Parameters
    ----------
    service
        The service, for its limits.
    upload
        The value of the field for the file.
    languages
        The served source language, or `AUTO`, and the target language.
    client
        Identifies the client for limits.

    Raises
    ------
    Refused
        400 for a field that is no file, a file that is not translated, and text that is not UTF-8. 413 for a file above
        the limit.
    """
    if not isinstance(upload, Upload):
        raise Refused(400, "Invalid request: missing file parameter. Send the file with its name, in the field `file`")
    stem, dot, ending = upload.name.rpartition(".")
    ending = f"{dot}{ending.lower()}"
    content = upload.content.removeprefix(codecs.BOM_UTF8)
    kind = kind_of_archive(content, f"x{ending}") or kind_of_name(f"x{ending}")
    name = kind.name if kind else "text"
    if kind and name in OFFICE and ending not in kind.endings.split():
        stem, ending = upload.name, kind.endings.split()[0]
    if ending not in FILE_ENDINGS or (kind and name not in DOCUMENTS):
        advice = f" The file is {kind.name}. {kind.advice}" if kind else ""
        advice = advice if dot else " Send the file with its name."
        endings = ", ".join(FILE_ENDINGS)
        raise Refused(400, f"Invalid request: file format not supported. Supported: {endings}.{advice}")
    if len(upload.content) > (most := service.settings.max_file_bytes):
        raise Refused(413, f"The file may have at most {most} bytes. Send it in parts.")
    if name not in OFFICE:
        try:
            content.decode()
        except UnicodeDecodeError:
            raise Refused(400, "Invalid request: the file is not UTF-8. Save it as UTF-8.") from None
    source, target = languages
    translated = f"{_NOT_IN_NAMES.sub('_', stem)[:80] or 'file'}_{target}{ending}"
    media_type = _MEDIA_TYPES.get(ending, "application/octet-stream")
    return FileJob(translated, media_type, client, name, source, target, content, len(content))
