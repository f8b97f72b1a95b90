"""The ASGI application: routes from paths to the functions that answer them.

`cli/serve.py` calls `make_app`, and so do the tests, without a socket. A handler takes the request and its fields, and
returns a Response or a value for JSON. It raises `Refused` for errors of the client.

Each route has three properties: whether it needs a key, whether it is work that a full queue refuses, and the most
bytes of its body. Probes and metrics need no key and are no work, so that they answer under load.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.errors import ConfigError
from dragoman.serving.apis import deepl, libretranslate, native_api
from dragoman.serving.files import FileTranslations
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.endpoint import Endpoint, Handler, SortedJsonResponse, error_response, is_deepl
from dragoman.serving.http.forwarding import BASE_URL, DIRECT, Deployment, Forwarding
from dragoman.serving.http.keys import Keys
from dragoman.serving.http.middleware import Middleware
from dragoman.serving.http.refusals import Refused
from dragoman.serving.pages import DOCS_FILES, docs_page, openapi_document, page_files
from dragoman.serving.service import Service

_log = logging.getLogger("dragoman.serving")
# Bytes allowed for the form fields around a file.
_FORM_BYTES = 1 << 16
_WHERE_TO_LOOK = "/docs lists every path."


def make_app(service: Service, keys: Keys, with_page: bool = True, deployment: Deployment = DIRECT) -> ASGIApp:
    """Build the ASGI application of a service. Its lifespan starts and closes the service.

    Parameters
    ----------
    service
        The service, which is not started yet.
    keys
        The API keys and the rate limit.
    with_page
        Whether to serve the translation page at ``/``.
    deployment
        How clients reach the server. Raises ConfigError if its prefix is the start of a path of the server.
    """
    files = FileTranslations(service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception:
            _log.exception("the models failed to translate the warm-up sentences")
            raise
        yield
        files.close()
        await service.close()

    work = _work_routes(service, files, keys)
    routes = [*work, *_info_routes(service, files, keys), *_page_routes(service, with_page)]
    if prefix := deployment.prefix:
        if any(route.path.startswith(f"{prefix}/") for route in routes):
            raise ConfigError(f"`--url-prefix` must not be {prefix}, because the server has other paths there.")
        slash = RedirectResponse(f"{prefix.rpartition('/')[2]}/", 308)  # relative, whatever the proxy has in front
        routes += _routes(service, {prefix: partial(_return_file, slash)}, ["GET"])
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refuse_address})
    app.router.redirect_slashes = False  # the redirect would name a wrong address behind a proxy
    all_paths, work_paths = (frozenset(route.path for route in some) for some in (routes, work))
    # Detection needs a key like work, but no lane, so a full queue does not refuse it.
    return Forwarding(Middleware(app, service, all_paths, work_paths - {"/detect"}, deployment), deployment)


def _routes(service: Service, handlers: Mapping[str, Handler], methods: list[str], **options: Any) -> list[Route]:
    """One route per path. `options` are keywords of `Endpoint`."""
    limits = {"most_bytes": _FORM_BYTES} | options
    return [Route(path, Endpoint(handler, service, **limits), methods=methods) for path, handler in handlers.items()]


def _work_routes(service: Service, files: FileTranslations, keys: Keys) -> list[Route]:
    """Routes that translate or inspect. They need a key if the server has keys."""
    texts: dict[str, Handler] = {
        "/translate": lambda _, fields: libretranslate.post_translate(service, fields),
        "/v1/translate": lambda _, fields: native_api.post_v1_translate(service, fields),
        "/inspect": lambda _, fields: native_api.post_inspect(service, fields),
    }
    deepl_texts: dict[str, Handler] = {"/v2/translate": lambda _, fields: deepl.post_v2_translate(service, fields)}
    detection: dict[str, Handler] = {"/detect": lambda _, fields: libretranslate.post_detect(service, fields)}
    uploads: dict[str, Handler] = {
        "/translate_file": lambda request, fields: libretranslate.post_translate_file(
            service, files, fields, keys.client(request.scope, fields), request.scope[BASE_URL]
        ),
        "/v1/files": lambda request, fields: native_api.post_v1_files(
            service, files, fields, keys.client(request.scope, fields)
        ),
    }
    look: dict[str, Handler] = {"/look": lambda _, fields: native_api.get_look(service, fields)}
    text_bytes, upload_bytes = service.settings.max_body_bytes, service.settings.max_file_bytes + _FORM_BYTES
    return [
        *_routes(service, look, ["GET"], keys=keys, is_work=True),
        *_routes(service, texts, ["POST"], most_bytes=text_bytes, keys=keys, is_work=True),
        *_routes(service, deepl_texts, ["GET", "POST"], most_bytes=text_bytes, keys=keys, is_work=True),
        *_routes(service, detection, ["POST"], most_bytes=text_bytes, keys=keys),
        *_routes(service, uploads, ["POST"], most_bytes=upload_bytes, keys=keys, is_work=True, needs_form=True),
    ]


def _info_routes(service: Service, files: FileTranslations, keys: Keys) -> list[Route]:
    """Routes that translate nothing. Only the routes of DeepL's API need a key, because its clients expect that."""
    without_key: dict[str, Handler] = {
        "/languages": lambda _, fields: libretranslate.get_languages(service),
        "/frontend/settings": lambda _, fields: libretranslate.get_frontend_settings(service, keys.are_needed),
        "/health": lambda _, fields: _health(service),
        "/readyz": lambda _, fields: _health(service),
        "/livez": lambda _, fields: {"status": "ok"},
        "/metrics": lambda _, fields: _metrics(service),
        "/v1/models": lambda _, fields: native_api.get_v1_models(service),
        "/download_file/{name}": lambda request, fields: _download(files, request),
    }
    with_key: dict[str, Handler] = {
        "/v2/languages": lambda _, fields: deepl.get_v2_languages(service, fields),
        "/v2/usage": lambda _, fields: deepl.get_v2_usage(service),
    }
    file_status: dict[str, Handler] = {"/v1/files/{name}": lambda request, fields: _file_status(files, request)}
    suggest: dict[str, Handler] = {"/suggest": _refuse_suggestions}
    return [
        *_routes(service, without_key, ["GET"]),
        *_routes(service, with_key, ["GET", "POST"], keys=keys),
        *_routes(service, file_status, ["GET", "DELETE"]),
        *_routes(service, suggest, ["POST"], most_bytes=service.settings.max_body_bytes),
    ]


async def _health(service: Service) -> Response:
    """Answer a readiness probe: 200 if the server translates, else 503 with the reason."""
    status = await service.probe_status()
    if status == "ok":
        return SortedJsonResponse({"status": status})
    return SortedJsonResponse({"status": status}, 503, {"Retry-After": "5"})


def _metrics(service: Service) -> Response:
    """Answer Prometheus. The queue is measured now, because it changes without an event to count."""
    service.metrics.waiting.set(service.batcher.num_requests)
    return Response(service.metrics.expose(), media_type=CONTENT_TYPE_LATEST)


def _download(files: FileTranslations, request: Request) -> Response:
    """Send a translated file. It needs no key: its name has an id that cannot be guessed."""
    job, path = files.download(request.path_params["name"], request.method != "HEAD")
    # Ranges are not supported. FileResponse would refuse a wrong range with a body that is not JSON.
    request.scope["headers"] = [header for header in request.scope["headers"] if header[0] != b"range"]
    response = _Download(path, media_type=job.media_type, filename=job.name, headers={"Accept-Ranges": "none"})
    response.sending = files.sending(job)
    return response


class _Download(FileResponse):
    """A translated file. It may be dropped, by its client or for another file, before all of it is sent."""

    sending: AbstractContextManager[None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.sending:
            await super().__call__(scope, receive, send)


def _file_status(files: FileTranslations, request: Request) -> dict[str, Any]:
    name = request.path_params["name"]
    answer = native_api.delete_v1_file if request.method == "DELETE" else native_api.get_v1_file
    return answer(files, name)


def _page_routes(service: Service, with_page: bool) -> list[Route]:
    """Routes of the documentation and, unless it is off, of the translation page. They need no key."""
    answers: dict[str, Handler] = {
        "/docs": lambda request, fields: docs_page(request.scope[BASE_URL], with_page),
        "/openapi.json": lambda request, fields: openapi_document() | {"servers": [{"url": request.scope[BASE_URL]}]},
    }
    for path, answer in page_files().items():
        if with_page or path in DOCS_FILES:
            answers[path] = partial(_return_file, answer)
    return _routes(service, answers, ["GET"])


def _return_file(answer: Response, request: Request, fields: Fields) -> Response:
    return answer


def _refuse_suggestions(request: Request, fields: Fields) -> Any:
    raise Refused(403, "Suggestions are disabled on this server.")  # LibreTranslate's words


async def _refuse_address(request: Request, error: Exception) -> Response:
    """Answer an unknown path, or a method that a path does not support."""
    assert isinstance(error, HTTPException)
    words = {
        404: f"Path not found. {deepl.SUPPORTED_PATHS if is_deepl(request.scope) else _WHERE_TO_LOOK}",
        405: f"This path does not support {request.method}. /docs lists its methods.",
    }
    response = error_response(request.scope, Refused(error.status_code, words.get(error.status_code, error.detail)))
    response.headers.update(error.headers or {})
    return response
