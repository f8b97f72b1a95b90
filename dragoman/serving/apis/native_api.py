"""Dragoman's own API, /v1: translations with candidates, scores, tokens, word alignment and flags; files; inspections.

``openapi.json`` describes it.

It shows everything that the translator computes, while the other two APIs return only texts. Candidates and alignments
need plain text.
"""

import asyncio
import json
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from dragoman.devices.without_torch import compute_on_one_thread
from dragoman.errors import DataError, MissingExtraError, has_torch, require_torch
from dragoman.evaluation.flags import FLAGS
from dragoman.records import Candidate, Details, Translation
from dragoman.serving.apis.parsing import check_texts, parse_file, parse_languages
from dragoman.serving.files import FileTranslations
from dragoman.serving.http.bodies import Fields
from dragoman.serving.limits import Refused, server_busy
from dragoman.serving.service import AUTO, Answer, Service, TranslationRequest
from dragoman.text.documents.text_formats import Split, TextFormat, TextKind
from dragoman.text.tokenization.words import spaced_words
from dragoman.version import __version__
from dragoman.visualization.inspection.inspection import Inspection, inspection_page


async def post_v1_translate(service: Service, fields: Fields) -> dict[str, Any]:
    """POST /v1/translate.

    Fields: ``text`` (one or several), ``target``, ``source`` (default: auto), ``format`` (text or html), ``split``
    (sentences, lines or none), ``n_best``, ``alignment`` and ``tag``. Flags are always computed.
    """
    request = _parse(service, fields)
    described = []
    for answer in await service.translate(request):
        described.append(_describe_answer(answer, request.text_format.is_markup))
        await asyncio.sleep(0)  # thousands of candidates take a while
    return {"translations": described}


def _parse(service: Service, fields: Fields) -> TranslationRequest:
    """The request of the fields. Raises Refused (400) that names the field."""
    texts = check_texts(service, fields.texts("text"))
    if not texts:
        raise Refused(400, "Invalid request: missing text parameter")
    details = Details(alignment=fields.flag("alignment"))
    form = fields.text("format", "text")
    split = cast(Split, fields.text("split", "sentences"))
    if form not in ("text", "html"):
        raise Refused(400, f"Invalid request: format must be text or html, but is {form}")
    if split not in get_args(Split):
        raise Refused(400, f"Invalid request: split must be one of {', '.join(get_args(Split))}, but is {split}")
    if details.alignment and form != "text":
        raise Refused(400, "Invalid request: alignment needs format text, but format is html")
    n_best = _n_best(service, fields)
    source, target = parse_languages(service, fields.text("source", AUTO), fields.text("target"))
    text_format = TextFormat(cast(TextKind, form), split)
    num_alternatives = n_best - 1 if form == "text" else 0
    return TranslationRequest(texts, source, target, text_format, num_alternatives, details, fields.text("tag"))


def _n_best(service: Service, fields: Fields) -> int:
    """The number of candidates, which is also the least width of the beam."""
    return fields.number("n_best", service.settings.max_alternatives + 1, least=1)


def _describe_answer(answer: Answer, is_markup: bool) -> dict[str, Any]:
    """The facts about one text. A candidate of the text has the candidates of its parts, joined."""
    texts = [answer.text, *answer.alternatives]
    facts: dict[str, Any] = {"text": answer.text, "source": answer.source}
    if answer.detection is not None:
        facts["confidence"] = answer.detection.confidence
    facts |= {
        "flags": _collect_flags(answer, is_markup),
        "lost": list(dict.fromkeys(piece for part in answer.parts for piece in part.lost)),
        "candidates": [_describe_candidate(*one) for one in zip(texts, answer.candidates, strict=True) if one[1]],
    }
    if any(part.alignment is not None for part in answer.parts):
        facts["sentences"] = [_describe_sentence(part) for part in answer.parts]
    return facts


def _describe_sentence(part: Translation) -> dict[str, Any]:
    """A sentence with its word alignment, and the model's probability of each word or null.

    The probability of a word is the product of those of its tokens. A token with parts of two words counts for both. If
    the tokens do not form the words of the text, all words have null.
    """
    words: list[float | None] = [None] * len(part.text.split())
    if part.candidates:
        best = part.candidates[0]
        touched = spaced_words(best.tokens)
        if max((word for words in touched for word in words), default=-1) + 1 == len(words):
            sums = [0.0] * len(words)
            for numbers, log_prob in zip(touched, best.token_log_probs, strict=False):
                for number in numbers:
                    sums[number] += log_prob
            words = [round(math.exp(total), 4) for total in sums]
    return {
        "source": part.src,
        "text": part.text,
        "words": words,
        "alignment": [list(one) for one in part.alignment or ()],
    }


def _describe_candidate(text: str, parts: list[Candidate]) -> dict[str, Any]:
    """A text with the tokens of its parts and the sums of their scores."""
    return {
        "text": text,
        "score": round(sum(one.score for one in parts), 4),
        "log_prob": round(sum(one.log_prob for one in parts), 4),
        "tokens": [token for one in parts for token in one.tokens],
        "token_log_probs": [round(log_prob, 4) for one in parts for log_prob in one.token_log_probs],
    }


def _collect_flags(answer: Answer, is_markup: bool) -> list[str]:
    """The flags of all sentences (`evaluation/flags.py`), and ``split`` if a sentence was too long for the model."""
    found = {flag for part in answer.parts for flag in part.flags}
    split = not is_markup and any(part.segments > 1 for part in answer.parts)
    return [*(flag for flag in FLAGS if flag in found), *(["split"] if split else [])]


def get_v1_models(service: Service) -> dict[str, Any]:
    """GET /v1/models: each served model with facts of its card, all pairs, and whether ``/inspect`` works.

    Pairs through the pivot are included.
    """
    described = [
        {
            "pair": model.pair,
            "source": model.source,
            "target": model.target,
            "fingerprint": model.model.fingerprint,
            "parameters": model.model.card.parameters,
            "precision": str(model.overrides.get("precision", model.translator.settings.precision)),
            "scores": [list(row) for row in model.model.card.scores],
            "tags": list(model.tags),
            "tag": model.settings().tag,
        }
        for model in service.models.all
    ]
    pairs, pivot = service.models.pairs, service.models.pivot
    return {"version": __version__, "models": described, "pairs": pairs, "pivot": pivot, "inspection": has_torch()}


async def post_inspect(service: Service, fields: Fields) -> Any:
    """POST /inspect: the data of the inspection page for one text and one model.

    Fields: ``text`` (or ``q``), ``source``, ``target``, ``n_best``, ``tag``, ``reference`` and ``prefix``. A pair that
    needs two models is refused, because an inspection shows one model.
    """
    return json.loads((await _inspection(service, fields)).to_json())


async def get_look(service: Service, fields: Fields) -> Response:
    """GET /look: the inspection page, with links that choose another token at any position.

    ``prefix`` holds the ids of the tokens that the translation starts with, separated by commas.
    """
    inspection = await _inspection(service, fields)
    question = {"source": inspection.src_lang, "target": inspection.tgt_lang, "text": inspection.src.text}
    question |= {name: value for name in ("n_best", "tag", "api_key") if (value := fields.text(name))}
    page = await service.run_inspection(partial(inspection_page, inspection, f"?{urlencode(question)}"))
    headers = {"Content-Security-Policy": "frame-ancestors 'none'", "Referrer-Policy": "no-referrer"}
    return Response(page, media_type="text/html", headers=headers)


async def _inspection(service: Service, fields: Fields) -> Inspection:
    """Inspect the translation of one text by one model, in the inspection thread. Raises Refused (400, 501 or 503)."""
    try:
        require_torch("inspecting")
    except MissingExtraError as error:
        raise Refused(501, f"Not available on this server: {error}") from None
    text = check_texts(service, [fields.text("text") or fields.text("q")])[0]
    for name in ("reference", "prefix"):
        check_texts(service, [fields.text(name)])
    source, target = parse_languages(service, fields.text("source", AUTO), fields.text("target"))
    n_best = _n_best(service, fields)
    if source == AUTO:
        source = (await service.detect_for(text, target)).language
    path = service.models.path(source, target)
    if path is None or len(path) != 1:
        raise Refused(400, f"Invalid request: no single model translates from {source} to {target}. See /v1/models.")
    service.models.check_tag(tag := fields.text("tag"), path)
    if service.inspections.locked():
        raise server_busy(5)
    (model,) = path
    try:
        facts = {"reference": fields.text("reference"), "prefix_ids": _ids(fields.text("prefix"))}
        work = partial(_inspect, model.model, text, model.settings(n_best, tag), name=model.pair, **facts)
        async with service.inspections, asyncio.timeout(service.settings.deadline_seconds):
            found = await service.run_inspection(work)
        return replace(found, src_lang=model.source, tgt_lang=model.target)
    except DataError as error:
        raise Refused(400, f"Invalid request: {error}") from None
    except TimeoutError:
        raise server_busy(5) from None


def _inspect(*given: Any, **facts: Any) -> Inspection:
    """`inspect_text`. It imports torch, which takes seconds, in the inspection thread."""
    from dragoman.visualization.inspection.inspector import inspect_text

    compute_on_one_thread()
    return inspect_text(*given, **facts)


def _ids(text: str) -> list[int]:
    """The ids of a comma-separated list."""
    if not re.fullmatch(r"(\d{1,9}(,\d{1,9})*)?", text):
        raise Refused(400, "Invalid request: prefix must be token ids separated by commas")
    return [int(one) for one in text.split(",") if one]


def post_v1_files(files: FileTranslations, fields: Fields, client: bytes) -> dict[str, Any]:
    """POST /v1/files: starts to translate a file and answers at once, with the file's id."""
    languages = parse_languages(files.service, fields.text("source", AUTO), fields.text("target"))
    job = parse_file(files.service, fields.values.get("file"), languages, client)
    job.tag = fields.text("tag")
    files.start(job)
    return get_v1_file(files, job.id)


def get_v1_file(files: FileTranslations, name: str) -> dict[str, Any]:
    """GET /v1/files/{name}: the progress of a file, by its id or download name."""
    job = files.find(name)
    facts: dict[str, Any] = {"id": job.id, "status": job.status, "segments": job.total, "translated": job.done}
    if job.notes:
        facts["notes"] = list(job.notes)
    if job.waits:
        facts["ahead"] = files.num_ahead(job)
    if job.status == "done":
        facts["url"] = f"/download_file/{job.download_name}"
    return facts | ({"error": job.refused.message} if job.refused else {})


def delete_v1_file(files: FileTranslations, name: str) -> dict[str, Any]:
    """DELETE /v1/files/{name}: cancels a file or drops its translation."""
    job = files.find(name)
    files.drop(job)
    return {"id": job.id, "status": "cancelled"}
