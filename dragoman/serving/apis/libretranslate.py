"""LibreTranslate's HTTP API, with the same fields, statuses and error messages.

This server differs where LibreTranslate has bugs: escaped text stays escaped, the language of every text is detected
separately, wrong types are 400 instead of 500, every error is JSON, and 429 and 503 have a Retry-After header.

The API is described at docs.libretranslate.com. Field ``q`` is a text or a list of texts, and each key of the answer
has the same form: a value for a text, a list for a list.
"""

from typing import Any

from dragoman.languages import language_name
from dragoman.serving.apis.parsing import FILE_ENDINGS, check_texts, parse_file, parse_languages
from dragoman.serving.files import FileTranslations
from dragoman.serving.http.bodies import Fields
from dragoman.serving.limits import Refused
from dragoman.serving.service import AUTO, Service, TranslationRequest
from dragoman.text.documents.text_formats import PLAIN_TEXT, TextFormat

_FORMATS = {"text": PLAIN_TEXT, "html": TextFormat("html")}


async def post_translate(service: Service, fields: Fields) -> dict[str, Any]:
    """POST /translate.

    Fields: ``q``, ``source`` (or auto), ``target``, ``format`` (text or html), ``alternatives`` (a number). The answer
    has ``translatedText``, and ``alternatives`` and ``detectedLanguage`` if they were requested.
    """
    answers = await service.translate(_parse(service, fields))
    columns: dict[str, list[Any]] = {}
    if fields.number("alternatives", service.settings.max_alternatives):
        columns["alternatives"] = [answer.alternatives for answer in answers]
    if detections := [answer.detection._asdict() for answer in answers if answer.detection is not None]:
        columns["detectedLanguage"] = detections
    columns["translatedText"] = [answer.text for answer in answers]
    is_list = isinstance(fields.values["q"], list)
    return {name: column if is_list else column[0] for name, column in columns.items()}


def _parse(service: Service, fields: Fields) -> TranslationRequest:
    """The request of the fields. Raises Refused (400). HTML has no alternatives."""
    texts = fields.texts("q")
    if not texts or fields.values["q"] == "":
        raise Refused(400, "Invalid request: missing q parameter")
    source, target = fields.text("source"), fields.text("target")
    num_alternatives = fields.number("alternatives", service.settings.max_alternatives)
    source, target = parse_languages(service, source, target)
    check_texts(service, texts)
    form = fields.text("format") or "text"
    if form not in _FORMATS:
        raise Refused(400, f"{form} format is not supported")
    return TranslationRequest(texts, source, target, _FORMATS[form], num_alternatives if form == "text" else 0)


async def post_detect(service: Service, fields: Fields) -> list[dict[str, Any]]:
    """POST /detect: the likely languages of a text among the served ones, the likeliest first."""
    texts = check_texts(service, fields.texts("q"))
    if not any(texts):
        raise Refused(400, "Invalid request: missing q parameter")
    best, *others = await service.detect("\n".join(texts))
    return [one._asdict() for one in (best, *(other for other in others if other.confidence >= 1.0))]


def get_languages(service: Service) -> list[dict[str, Any]]:
    """GET /languages: each served language with its target languages, itself included."""
    models = service.models
    return [{"code": code, "name": language_name(code), "targets": models.targets(code)} for code in models.codes]


def get_frontend_settings(service: Service, needs_keys: bool) -> dict[str, Any]:
    """GET /frontend/settings. Clients read the limits and file types from it; the other keys are LibreTranslate's."""
    first = service.models.all[0]
    return {
        "apiKeys": needs_keys,
        "charLimit": service.settings.max_chars,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": needs_keys,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": first.target, "name": language_name(first.target)},
        },
        "suggestions": False,
        "supportedFilesFormat": list(FILE_ENDINGS),
    }


async def post_translate_file(files: FileTranslations, fields: Fields, client: bytes, base_url: str) -> dict[str, Any]:
    """POST /translate_file: translates a file and answers when it is done."""
    languages = parse_languages(files.service, fields.text("source"), fields.text("target"))
    job = parse_file(files.service, fields.values.get("file"), languages, client)
    files.start(job)
    del fields  # the content of the file
    try:
        await job.ended.wait()
        if job.refused:
            raise job.refused
    except BaseException:  # the client disconnected or gets the error: nobody will download this file
        files.drop(job)
        raise
    return {"translatedFileUrl": f"{base_url}/download_file/{job.download_name}"}
