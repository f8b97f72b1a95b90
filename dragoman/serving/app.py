"""The ASGI application: which address is answered by what."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dragoman.serving.apis import deepl, libretranslate
from dragoman.serving.apis import native_api as own
from dragoman.serving.apis.files import FILE_KINDS, Files
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.endpoint import Endpoint, Frame, Handler, Json, error_response, is_deepl
from dragoman.serving.http.keys import Keys
from dragoman.serving.http.refusals import Refused
from dragoman.serving.pages import OF_DOCS, docs_page, openapi, page_files
from dragoman.serving.service import Service

_log = logging.getLogger("dragoman.serving")
_FORM_BYTES = 1 << 16
"""What a form around a file may take."""
_WHERE_TO_LOOK = "/docs lists what there is."


def make_app(service: Service, keys: Keys, with_page: bool = True) -> ASGIApp:
    """The application for a service, which it starts and closes."""
    files = Files(service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception:
            _log.exception("the models cannot translate")
            raise
        yield
        files.close()
        await service.close()

    work = _work(service, files, keys)
    routes = [*work, *_facts(service, files, keys), *_pages(service, with_page)]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _unknown})
    app.router.redirect_slashes = False  # to an address that is wrong behind a proxy
    paths = [frozenset(route.path for route in some) for some in (routes, work)]
    paths[1] -= {"/detect"}
    return Frame(app, service, *paths)


def _work(service: Service, files: Files, keys: Keys) -> list[Route]:
    """Routes that translate, for whoever has a key."""
    texts: dict[str, Handler] = {
        "/translate": lambda _, fields: libretranslate.post_translate(service, fields),
        "/detect": lambda _, fields: libretranslate.post_detect(service, fields),
        "/v1/translate": lambda _, fields: own.post_v1_translate(service, fields),
        "/v2/translate": lambda _, fields: deepl.post_v2_translate(service, fields),
        "/inspect": lambda _, fields: own.post_inspect(service, fields),
    }
    uploads: dict[str, Handler] = {
        "/translate_file": lambda request, fields: libretranslate.post_translate_file(
            service, files, fields, keys.client(request.scope, fields), _base_url(request)
        ),
        "/v1/files": lambda request, fields: own.post_v1_files(
            service, files, fields, keys.client(request.scope, fields)
        ),
    }
    limits = service.settings
    sized = [(texts, limits.max_body_bytes), (uploads, limits.max_file_bytes + _FORM_BYTES)]
    look = Endpoint(lambda _, fields: own.get_look(service, fields), service, _FORM_BYTES, keys, is_work=True)
    return [
        Route("/look", look, methods=["GET"]),
        *(
            Route(path, Endpoint(handler, service, most_bytes, keys, is_work=path != "/detect"), methods=["POST"])
            for handlers, most_bytes in sized
            for path, handler in handlers.items()
        ),
    ]


def _facts(service: Service, files: Files, keys: Keys) -> list[Route]:
    """Routes that only tell something, to anybody; but for those of DeepL's API, whose clients expect to be refused."""

    async def health(request: Request, fields: Fields) -> Response:
        status = await service.probed_status()
        return Json({"status": status}, 200 if status == "ok" else 503, {} if status == "ok" else {"Retry-After": "5"})

    def metrics(request: Request, fields: Fields) -> Response:
        service.metrics.waiting.set(service.batcher.num_requests)
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    def download(request: Request, fields: Fields) -> Response:
        job, path = files.download(request.path_params["name"], request.method != "HEAD")
        # A part of a file is not given, nor what a request for one is refused with, which would be no JSON.
        request.scope["headers"] = [header for header in request.scope["headers"] if header[0] != b"range"]
        headers = {"Accept-Ranges": "none"}
        return FileResponse(path, media_type=FILE_KINDS[job.kind][1], filename=job.name, headers=headers)

    def file(request: Request, fields: Fields) -> dict[str, Any]:
        name = request.path_params["name"]
        return files.cancel(name) if request.method == "DELETE" else files.progress(name)

    open_to_all: dict[str, Handler] = {
        "/languages": lambda _, fields: libretranslate.get_languages(service),
        "/frontend/settings": lambda _, fields: libretranslate.get_frontend_settings(service, keys.are_needed),
        "/health": health,
        "/readyz": health,
        "/livez": lambda _, fields: {"status": "ok"},
        "/metrics": metrics,
        "/v1/models": lambda _, fields: own.get_v1_models(service),
        "/download_file/{name}": download,
    }
    with_key: dict[str, Handler] = {
        "/v2/languages": lambda _, fields: deepl.get_v2_languages(service, fields),
        "/v2/usage": lambda _, fields: deepl.get_v2_usage(service),
    }
    suggest = Endpoint(_no_suggestions, service, service.settings.max_body_bytes)
    return [
        *(
            Route(path, Endpoint(handler, service, _FORM_BYTES), methods=["GET"])
            for path, handler in open_to_all.items()
        ),
        *(
            Route(path, Endpoint(handler, service, _FORM_BYTES, keys), methods=["GET", "POST"])
            for path, handler in with_key.items()
        ),
        Route("/v1/files/{name}", Endpoint(file, service, _FORM_BYTES), methods=["GET", "DELETE"]),
        Route("/suggest", suggest, methods=["POST"]),
    ]


def _pages(service: Service, with_page: bool) -> list[Route]:
    answers: dict[str, Handler] = {
        "/docs": lambda request, fields: docs_page(_base_url(request), with_page),
        "/openapi.json": lambda _, fields: openapi(),
    }
    for path, answer in page_files().items():
        if with_page or path in OF_DOCS:
            answers[path] = partial(_as_it_is, answer)
    return [Route(path, Endpoint(handler, service, _FORM_BYTES), methods=["GET"]) for path, handler in answers.items()]


def _base_url(request: Request) -> str:
    """The server's address as the client wrote it."""
    return str(request.base_url).rstrip("/")


def _as_it_is(answer: Response, request: Request, fields: Fields) -> Response:
    return answer


def _no_suggestions(request: Request, fields: Fields) -> Any:
    raise Refused(403, "Suggestions are disabled on this server.")


async def _unknown(request: Request, error: Exception) -> Response:
    """What the router refuses: an unknown address, or a known one asked in another way."""
    assert isinstance(error, HTTPException)
    words = {
        404: f"There is nothing at this address. {deepl.WHAT_THERE_IS if is_deepl(request.scope) else _WHERE_TO_LOOK}",
        405: f"This address is not for {request.method}. /docs says what it is for.",
    }
    response = error_response(request.scope, Refused(error.status_code, words.get(error.status_code, error.detail)))
    response.headers.update(error.headers or {})
    return response
