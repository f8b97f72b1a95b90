"""Parsing that the APIs share: the languages, texts and file of a request.

Most error messages are those of LibreTranslate.
"""

import codecs
import re

from dragoman.serving.files import FileJob
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.decoding import Upload
from dragoman.serving.limits import Refused
from dragoman.serving.service import AUTO, Service, TranslationRequest
from dragoman.text.documents.text_formats import PLAIN_TEXT, TextFormat

# Format and media type of a file by its extension.
_FILE_FORMATS = {
    "txt": (PLAIN_TEXT, "text/plain"),
    "html": (TextFormat("html"), "text/html"),
    "srt": (TextFormat("subtitles"), "application/x-subrip"),
    "vtt": (TextFormat("subtitles"), "text/vtt"),
}
FILE_ENDINGS = tuple(_FILE_FORMATS)


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


def parse_file(service: Service, fields: Fields, client: bytes, default_source: str = "") -> FileJob:
    """The file of a form, to be started.

    Parameters
    ----------
    service
        The service, for its languages.
    fields
        The fields ``file``, ``source`` and ``target``.
    client
        Identifies the client for limits.
    default_source
        The source language if the form has none. With "", it must have one.

    Raises
    ------
    Refused
        400 for a form without a file, an unknown extension, content that is not UTF-8, and missing or unknown
        languages. 413 for a file above the limit.
    """
    upload = fields.values.get("file")
    if not isinstance(upload, Upload):
        raise Refused(400, "Invalid request: missing file parameter. Send the file with its name, in the field `file`")
    source, target = parse_languages(service, fields.text("source", default_source), fields.text("target"))
    stem, dot, ending = upload.name.rpartition(".")
    kind = ending.lower()
    if not dot or kind not in _FILE_FORMATS:
        raise Refused(400, f"Invalid request: file format not supported. Supported: .{', .'.join(FILE_ENDINGS)}")
    if len(upload.content) > (most := service.settings.max_file_bytes):
        raise Refused(413, f"The file may have at most {most} bytes. Send it in parts.")
    content = upload.content.removeprefix(codecs.BOM_UTF8)
    try:
        num_chars = len(content.decode())
    except UnicodeDecodeError:
        raise Refused(400, "Invalid request: the file is not UTF-8. Save it as UTF-8.") from None
    text_format, media_type = _FILE_FORMATS[kind]
    name = re.sub(r"[^\w-]+", "_", stem)[:80] or "file"
    request = TranslationRequest((), source, target, text_format)
    return FileJob(f"{name}_{target}.{kind}", media_type, client, request, content, len(content), num_chars)
