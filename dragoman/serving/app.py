"""The ASGI application: routes from paths to the functions that answer them.

`cli/serve.py` calls `make_app`, and so do the tests, without a socket. A handler takes the request and its fields, and
returns a Response or a value for JSON. It raises `Refused` for errors of the client.

Each route has an `Endpoint`, with the limits and checks of its requests. Probes and metrics need no key and are no
work, so that they answer under load.
"""

import asyncio
import json
import mimetypes
import re
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from dragoman.errors import ConfigError
from dragoman.serving.apis import deepl, libretranslate, native_api
from dragoman.serving.files import FileJob, FileTranslations
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.endpoint import (
    Endpoint,
    SortedJsonResponse,
    error_response,
    is_deepl,
    wait_for_disconnect,
)
from dragoman.serving.http.forwarding import BASE_URL, DIRECT, Deployment
from dragoman.serving.http.keys import Keys
from dragoman.serving.http.middleware import Middleware
from dragoman.serving.limits import LOG, Refused
from dragoman.serving.service import Service
from dragoman.version import __version__

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-security policy: pages use scripts, styles and requests of this server only."""
_BASE = "https://dragoman.invalid"
_BACKQUOTED = re.compile("`([^`]+)`")
_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
_HERE = files("dragoman.serving")
DOCS_FILES = frozenset({"/docs.css", "/page.css", "/theme.js"})
"""Files that the documentation needs even if the translation page is off."""


def page_files() -> dict[str, Response]:
    """The response for each path, one per file of ``page/``. index.html is ``/``."""
    answers = {}
    for file in _HERE.joinpath("page").iterdir():
        kind = mimetypes.guess_type(file.name)[0]
        if kind is not None and file.is_file():
            path = "/" if file.name == "index.html" else f"/{file.name}"
            answers[path] = Response(file.read_bytes(), media_type=kind, headers=_HEADERS)
    return answers


@lru_cache(maxsize=1)
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document."""
    document: dict[str, Any] = json.loads(_HERE.joinpath("openapi.json").read_text(encoding="utf-8"))
    document["info"]["version"] = __version__
    return document


def docs_page(base_url: str, with_page: bool = True) -> Response:
    """The API documentation as HTML, with example commands for the server at `base_url`."""
    return Response(_docs_text(with_page).replace(_BASE, base_url), media_type="text/html", headers=_HEADERS)


@lru_cache(maxsize=2)
def _docs_text(with_page: bool) -> str:
    """The page with a marker instead of the URL, which the client determines with its Host header."""
    from jinja2 import Environment
    from markupsafe import Markup, escape

    environment = Environment(autoescape=True)
    environment.filters |= {
        "coded": lambda text: Markup(_BACKQUOTED.sub(r"<code>\1</code>", str(escape(text)))),
        "compact": partial(json.dumps, ensure_ascii=False),
        "indented": partial(json.dumps, ensure_ascii=False, indent=1),
        "quoted": shlex.quote,
    }
    template = environment.from_string(_HERE.joinpath("docs.html").read_text(encoding="utf-8"))
    return template.render(api=openapi_document(), base=_BASE, with_page=with_page)


# Bytes allowed for the form fields around a file.
_FORM_BYTES = 1 << 16


def make_app(service: Service, keys: Keys, with_page: bool = True, deployment: Deployment = DIRECT) -> Middleware:
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
            LOG.exception("the models failed to translate the warm-up sentences")
            raise
        yield
        files.close()
        await service.close()

    routes = _routes(service, files, keys, with_page)
    if prefix := deployment.prefix:
        if any(route.path.startswith(f"{prefix}/") for route in routes):
            raise ConfigError(f"`--url-prefix` must not be {prefix}, because the server has other paths there.")
        slash = RedirectResponse(f"{prefix.rpartition('/')[2]}/", 308)  # relative, whatever the proxy has in front
        routes.append(Route(prefix, Endpoint(service, lambda request, fields: slash, _FORM_BYTES), methods=["GET"]))
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refuse_address})
    app.router.redirect_slashes = False  # the redirect would name a wrong address behind a proxy
    paths = frozenset(route.path for route in routes)
    return Middleware(app, service.metrics, paths, deployment)


def _routes(service: Service, files: FileTranslations, keys: Keys, with_page: bool) -> list[Route]:
    """All routes. Those that translate, detect or inspect need a key if the server has keys.

    Other paths of DeepL's API need a key too, because its clients expect that. Detection needs no lane, so a full queue
    does not refuse it.
    """
    settings = service.settings
    info = partial(Endpoint, service, most_bytes=_FORM_BYTES)
    text = partial(Endpoint, service, most_bytes=settings.max_body_bytes, keys=keys, is_work=True)
    upload = partial(text, most_bytes=settings.max_file_bytes + _FORM_BYTES, needs_form=True)

    def translate_file(request: Request, fields: Fields) -> Any:
        client, base_url = keys.client(request.scope, fields), request.scope[BASE_URL]
        return libretranslate.post_translate_file(files, fields, client, base_url)

    def start_file(request: Request, fields: Fields) -> Any:
        return native_api.post_v1_files(files, fields, keys.client(request.scope, fields))

    def start_document(request: Request, fields: Fields) -> Any:
        return deepl.post_v2_document(files, fields, keys.client(request.scope, fields))

    def document_status(request: Request, fields: Fields) -> Any:
        return deepl.get_v2_document(files, fields, request.path_params["name"])

    def fetch_document(request: Request, fields: Fields) -> Any:
        return _download(files, request, deepl.find_document(files, fields, request.path_params["name"]))

    def fetch_file(request: Request, fields: Fields) -> Any:
        return _download(files, request, files.find(request.path_params["name"]))

    def openapi(request: Request, fields: Fields) -> Any:
        return openapi_document() | {"servers": [{"url": request.scope[BASE_URL]}]}

    table: list[tuple[str, str, Endpoint]] = [
        ("POST", "/translate", text(lambda _, fields: libretranslate.post_translate(service, fields))),
        ("POST", "/v1/translate", text(lambda _, fields: native_api.post_v1_translate(service, fields))),
        ("GET POST", "/v2/translate", text(lambda _, fields: deepl.post_v2_translate(service, fields))),
        ("POST", "/inspect", text(lambda _, fields: native_api.post_inspect(service, fields))),
        ("GET", "/look", text(lambda _, fields: native_api.get_look(service, fields), most_bytes=_FORM_BYTES)),
        ("POST", "/detect", text(lambda _, fields: libretranslate.post_detect(service, fields), is_work=False)),
        ("POST", "/translate_file", upload(translate_file)),
        ("POST", "/v1/files", upload(start_file)),
        ("POST", "/v2/document", upload(start_document)),
        ("GET POST", "/v2/document/{name}", info(document_status, keys=keys)),
        ("GET POST", "/v2/document/{name}/result", info(fetch_document, keys=keys)),
        ("GET DELETE", "/v1/files/{name}", info(lambda request, _: _file_status(files, request))),
        ("GET", "/download_file/{name}", info(fetch_file)),
        ("POST", "/suggest", info(_refuse_suggestions, most_bytes=settings.max_body_bytes)),
        ("GET", "/languages", info(lambda *_: libretranslate.get_languages(service))),
        ("GET", "/frontend/settings", info(lambda *_: libretranslate.get_frontend_settings(service, keys.are_needed))),
        ("GET", "/v1/models", info(lambda *_: native_api.get_v1_models(service))),
        ("GET POST", "/v2/languages", info(lambda _, fields: deepl.get_v2_languages(service, fields), keys=keys)),
        ("GET POST", "/v2/usage", info(lambda *_: deepl.get_v2_usage(service), keys=keys)),
        ("GET", "/health", info(lambda *_: _health(service))),
        ("GET", "/readyz", info(lambda *_: _health(service))),
        ("GET", "/livez", info(lambda *_: {"status": "ok"})),
        ("GET", "/metrics", info(lambda *_: Response(service.metrics.expose(), media_type=CONTENT_TYPE_LATEST))),
        ("GET", "/docs", info(lambda request, _: docs_page(request.scope[BASE_URL], with_page))),
        ("GET", "/openapi.json", info(openapi)),
    ]
    for path, response in page_files().items():
        if with_page or path in DOCS_FILES:
            table.append(("GET", path, info(lambda *_, response=response: response)))
    return [Route(path, endpoint, methods=methods.split()) for methods, path, endpoint in table]


async def _health(service: Service) -> Response:
    """Answer a readiness probe: 200 if the server translates, else 503 with the reason."""
    status = await service.probe_status()
    code, headers = (200, {}) if status == "ok" else (503, {"Retry-After": "5"})
    return SortedJsonResponse({"status": status}, code, headers)


def _download(files: FileTranslations, request: Request, job: FileJob) -> Response:
    """Send a translated file. ``/download_file`` needs no key: its name has an id that cannot be guessed."""
    path = files.path_of(job)
    # Ranges are not supported. FileResponse would refuse a wrong range with a body that is not JSON.
    request.scope["headers"] = [header for header in request.scope["headers"] if header[0] != b"range"]
    response = _Download(path, media_type=job.media_type, filename=job.name, headers={"Accept-Ranges": "none"})
    response.sending = files.sending(job)
    return response


class _Download(FileResponse):
    """A translated file. It may be dropped, by its client or for another file, before all of it is sent."""

    sending: AbstractContextManager[Callable[[], None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_gone = asyncio.ensure_future(wait_for_disconnect(receive))

        async def send_noting(message: Message) -> None:
            """Send a part. A HEAD request has none, and a client that left before the last one may try again."""
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)
            if is_last and scope["method"] != "HEAD" and not is_gone.done():
                end()

        with self.sending as end:
            try:
                await super().__call__(scope, receive, send_noting)
            finally:
                is_gone.cancel()


def _file_status(files: FileTranslations, request: Request) -> dict[str, Any]:
    answer = native_api.delete_v1_file if request.method == "DELETE" else native_api.get_v1_file
    return answer(files, request.path_params["name"])


def _refuse_suggestions(request: Request, fields: Fields) -> Any:
    raise Refused(403, "Suggestions are disabled on this server.")  # LibreTranslate's words


async def _refuse_address(request: Request, error: Exception) -> Response:
    """Answer an unknown path, or a method that a path does not support."""
    assert isinstance(error, HTTPException)
    words = {
        404: f"Path not found. {deepl.SUPPORTED_PATHS if is_deepl(request.scope) else '/docs lists every path.'}",
        405: f"This path does not support {request.method}. /docs lists its methods.",
    }
    response = error_response(request.scope, Refused(error.status_code, words.get(error.status_code, error.detail)))
    response.headers.update(error.headers or {})
    return response
