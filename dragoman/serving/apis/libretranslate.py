"""LibreTranslate's HTTP API, as its clients know it: fields, statuses and words for errors.

Where that server is wrong ours differs: text that came escaped goes back escaped, every text's language is found out on
its own, wrong types are 400, every error is JSON, and refusals say when to try again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dragoman.languages import language_name
from dragoman.serving.apis.documents import Document, markup, plain_text
from dragoman.serving.apis.files import FILE_KINDS, FileTranslations
from dragoman.serving.apis.requests import check_texts, request_options
from dragoman.serving.detection import Detection
from dragoman.serving.http.bodies import MALFORMED, Fields, Upload
from dragoman.serving.http.refusals import Refused
from dragoman.serving.service import AUTO, Answer, Service

_FORMATS: dict[str, Callable[[str], Document]] = {"text": plain_text, "html": markup}


async def post_translate(service: Service, fields: Fields) -> dict[str, Any]:
    """POST /translate."""
    texts = fields.texts("q")
    is_list = isinstance(fields.values.get("q"), list)
    if not texts or (texts == [""] and not is_list):
        raise Refused(400, "Invalid request: missing q parameter")
    source, target = fields.text("source").lower(), fields.text("target").lower()
    alternatives = fields.number("alternatives", service.settings.max_alternatives)
    options = request_options(service, source, target)
    check_texts(service, texts)
    form = fields.text("format") or "text"
    if form not in _FORMATS:
        raise Refused(400, f"{form} format is not supported")
    candidates = alternatives if form == "text" else 0
    options = replace(options, alternatives=candidates, document=_FORMATS[form])
    answers = await service.translate(texts, options)
    return _response(answers, is_list, alternatives > 0)


def _response(answers: list[Answer], is_list: bool, with_alternatives: bool) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {}
    if with_alternatives:
        columns["alternatives"] = [answer.alternatives for answer in answers]
    detections = [_detection(answer.detection) for answer in answers if answer.detection is not None]
    if detections:
        columns["detectedLanguage"] = detections
    columns["translatedText"] = [answer.text for answer in answers]
    return {name: column if is_list else column[0] for name, column in columns.items()}


def _detection(detection: Detection) -> dict[str, Any]:
    return {"confidence": detection.confidence, "language": detection.language}


async def post_detect(service: Service, fields: Fields) -> list[dict[str, Any]]:
    """POST /detect: the served languages that the text may be in, the most likely first."""
    texts = check_texts(service, fields.texts("q"))
    if not any(texts):
        raise Refused(400, "Invalid request: missing q parameter")
    best, *others = service.detect("\n".join(texts))
    return [_detection(one) for one in (best, *(other for other in others if other.confidence >= 1.0))]


def get_languages(service: Service) -> list[dict[str, Any]]:
    """GET /languages."""
    models = service.models
    return [{"code": code, "name": language_name(code), "targets": models.targets(code)} for code in models.codes]


def get_frontend_settings(service: Service, needs_keys: bool) -> dict[str, Any]:
    """GET /frontend/settings."""
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
        "supportedFilesFormat": [f".{kind}" for kind in FILE_KINDS],
    }


async def post_translate_file(
    service: Service, files: FileTranslations, fields: Fields, client: bytes, base_url: str
) -> dict[str, Any]:
    """POST /translate_file: answers when the file is translated."""
    upload = fields.values.get("file")
    if not isinstance(upload, Upload):
        raise Refused(400, MALFORMED)
    options = request_options(service, fields.text("source").lower(), fields.text("target").lower())
    job = files.start(upload, options, client)
    try:
        await files.wait_for(job)
    except BaseException:  # the client has left, or hears of it: nobody will ask for this file
        files.drop(job)
        raise
    return {"translatedFileUrl": f"{base_url}/download_file/{job.download_name}"}
