"""The translation of texts and documents in DeepL's v2 API, with the error messages that its official client parses.

Fields that request another style (formality, context, model_type ...) are accepted and have no effect.

The API is described at developers.deepl.com/docs. `app.py` routes ``/v2/`` here. Programs with a setting for DeepL's
address, such as DeepL's own Python client (`server_url`), can use this server without a change. Language codes are
capital in its answers, and errors have the key ``message``.
"""

import hmac
import math
import re
from typing import Any

from dragoman.languages import language_name
from dragoman.serving.apis.parsing import check_texts, parse_file
from dragoman.serving.files import FileJob, FileTranslations
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.decoding import Upload
from dragoman.serving.limits import Refused
from dragoman.serving.service import AUTO, Service, TranslationRequest
from dragoman.text.documents.text_formats import Split, TextFormat, TextKind

# Values of the fields `tag_handling` and `split_sentences`.
_KINDS: dict[str, TextKind] = {"": "text", "xml": "xml", "html": "html"}
_SPLITS: dict[str, Split] = {"0": "none", "1": "sentences", "nonewlines": "sentences"}
# White space with a line break in it. The look-behind keeps the time linear.
_LINE_BREAK = re.compile(r"(?<!\s)\s*[\r\n]\s*")
# The format of the answer has a limit, so name one that no server reaches.
_NO_LIMIT = 10**12
# Fields that are refused: ignoring them would return another translation than the client requested.
_UNSUPPORTED = {
    "glossary_id": "glossaries",
    "glossary_ids": "glossaries",
    "translation_memory_id": "translation memories",
    "custom_instructions": "custom instructions",
    "style_id": "style rules",
    "style_rule": "style rules",
}
# Most tags in a field.
_MOST_TAGS = 1000
SUPPORTED_PATHS = "This server supports /v2/translate, /v2/document, /v2/languages and /v2/usage of DeepL's API."


async def post_v2_translate(service: Service, fields: Fields) -> dict[str, Any]:
    """POST /v2/translate, or GET with the fields in the query, as old clients send it.

    Fields: ``text`` (one or several), ``target_lang``, ``source_lang`` (detected if missing), ``tag_handling`` (xml or
    html), ``split_sentences``, ``ignore_tags`` and ``splitting_tags``. ``detected_source_language`` is the source
    language of each text even if the request stated it, as in DeepL's answers.
    """
    answers = await service.translate(_parse(service, fields))
    return {
        "translations": [
            {
                "detected_source_language": answer.source.upper(),
                "text": answer.text,
                "billed_characters": len(text),
                "model_type_used": "latency_optimized",
            }
            for text, answer in zip(fields.texts("text"), answers, strict=True)
        ]
    }


def _parse(service: Service, fields: Fields) -> TranslationRequest:
    """The request of the fields. Raises Refused (400).

    DeepL splits at line breaks only with ``split_sentences=1``. With ``nonewlines``, the default for HTML, a line break
    is a space.
    """
    texts = check_texts(service, fields.texts("text"))
    if not texts:
        raise Refused(400, "Parameter 'text' not specified.")
    source, target = _options(service, fields)
    handling = fields.text("tag_handling")
    if handling not in _KINDS:
        raise Refused(400, "Value for 'tag_handling' not supported.")
    chosen = fields.text("split_sentences") or ("nonewlines" if handling == "html" else "1")
    if chosen not in _SPLITS:
        raise Refused(400, "Value for 'split_sentences' not supported.")
    if chosen == "nonewlines" and not handling:
        texts = [_LINE_BREAK.sub(" ", text) if "\n" in text or "\r" in text else text for text in texts]
    kind = "xml-lines" if handling == "xml" and chosen == "1" else _KINDS[handling]
    text_format = TextFormat(kind, _SPLITS[chosen], _tags(fields, "ignore_tags"), _tags(fields, "splitting_tags"))
    return TranslationRequest(texts, source, target, text_format)


def _options(service: Service, fields: Fields) -> tuple[str, str]:
    """The languages of texts or of a document. Raises Refused (400) for options that this server does not have."""
    for name, thing in _UNSUPPORTED.items():
        if fields.values.get(name):
            raise Refused(400, f"Value for '{name}' not supported: this server has no {thing}. Leave it out.")
    target = _language(service, fields.text("target_lang"), "target_lang")
    source = fields.text("source_lang")
    return _language(service, source, "source_lang") if source else AUTO, target


def _tags(fields: Fields, name: str) -> frozenset[str]:
    """Tag names, given as a comma-separated text or as a list. Raises Refused (400) for more than 1,000."""
    if sum(value.count(",") + 1 for value in fields.texts(name)) > _MOST_TAGS:
        raise Refused(400, f"Value for '{name}' not supported: it may have at most {_MOST_TAGS} tags.")
    return frozenset(tag for value in fields.texts(name) for tag in value.replace(" ", "").lower().split(",") if tag)


def post_v2_document(files: FileTranslations, fields: Fields, client: bytes) -> dict[str, Any]:
    """POST /v2/document: starts to translate a file, and answers at once.

    Fields: ``file``, ``target_lang``, ``source_lang`` (detected if missing), ``filename`` (instead of that of the
    upload), and ``output_format``, which must be that of the file.
    """
    languages, upload = _options(files.service, fields), fields.values.get("file")
    if not isinstance(upload, Upload):
        raise Refused(400, "Invalid file data. Send the file with its name, in the field 'file'.")
    job = parse_file(files.service, upload._replace(name=fields.text("filename") or upload.name), languages, client)
    ending, wanted = job.name.rpartition(".")[2], fields.text("output_format").lower()
    if wanted not in ("", ending):
        raise Refused(400, f"Value for 'output_format' not supported: the translation is {ending}, as the file is.")
    files.start(job)
    return {"document_id": job.id, "document_key": job.key}


def find_document(files: FileTranslations, fields: Fields, name: str) -> FileJob:
    """The file with this id, and the key in the field ``document_key``. Raises Refused (404) if there is none."""
    job = files.find(name)
    if not hmac.compare_digest(job.key.encode(), fields.text("document_key").encode("utf-8", "replace")):
        raise Refused(404, "The document_key does not fit the document. Send the one that came with the document_id.")
    return job


def get_v2_document(files: FileTranslations, fields: Fields, name: str) -> dict[str, Any]:
    """POST /v2/document/{name}, or GET: the state of a file."""
    job = find_document(files, fields, name)
    facts: dict[str, Any] = {"document_id": job.id, "status": "queued" if job.waits else job.status}
    if job.status == "done":
        facts |= {"seconds_remaining": 0, "billed_characters": job.num_chars}
    elif job.refused:
        facts |= dict.fromkeys(("error_message", "message"), job.refused.message)
    elif not job.waits:
        facts["seconds_remaining"] = math.ceil(files.seconds_left([job]))
    return facts


def get_v2_languages(service: Service, fields: Fields) -> list[dict[str, Any]]:
    """GET /v2/languages?type=source|target."""
    side = fields.text("type", "source")
    if side not in ("source", "target"):
        raise Refused(400, "Value for 'type' not supported.")
    codes = service.models.sources
    if side == "target":
        codes = list(dict.fromkeys(code for source in codes for code in service.models.targets(source)))
    return [{"language": code.upper(), "name": language_name(code), "supports_formality": False} for code in codes]


def get_v2_usage(service: Service) -> dict[str, Any]:
    """GET /v2/usage: characters translated since the server started. There is no limit."""
    return {"character_count": service.metrics.characters, "character_limit": _NO_LIMIT}


def _language(service: Service, code: str, name: str) -> str:
    """The served code. EN-GB falls back to en if no other English is served. Raises Refused (400)."""
    if not code:
        raise Refused(400, f"Parameter '{name}' not specified.")
    found = service.models.find(code) or service.models.find(code.partition("-")[0])
    if found is None:
        raise Refused(400, f"Value for '{name}' not supported.")
    return found
