"""What a browser is shown: the page, its parts, and the documentation of the API. Nothing is loaded from elsewhere."""

import json
import mimetypes
import re
import shlex
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, Template
from markupsafe import Markup, escape
from starlette.responses import Response

from dragoman.version import __version__

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page runs its own script, takes its own style and asks its own server."""
_BACKQUOTED = re.compile("`([^`]+)`")
_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
_HERE = files("dragoman.serving")
DOCS_FILES = frozenset({"/docs.css", "/page.css", "/theme.js"})
"""What the documentation takes along, where there is no page too."""


@lru_cache(maxsize=1)
def page_files() -> dict[str, Response]:
    """Path -> answer, for every file of ``page/``; index.html is ``/``."""
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


@lru_cache(maxsize=8)
def docs_page(base_url: str, with_page: bool = True) -> Response:
    """The same for people, with commands that ask the server at `base_url`."""
    page = _docs_template().render(api=openapi_document(), base=base_url, with_page=with_page)
    return Response(page, media_type="text/html", headers=_HEADERS)


@lru_cache(maxsize=1)
def _docs_template() -> Template:
    environment = Environment(autoescape=True)
    environment.filters |= {
        "coded": _mark_code,
        "compact": partial(json.dumps, ensure_ascii=False),
        "indented": partial(json.dumps, ensure_ascii=False, indent=1),
        "quoted": shlex.quote,
    }
    return environment.from_string(_HERE.joinpath("docs.html").read_text(encoding="utf-8"))


def _mark_code(text: str) -> Markup:
    """The text, with what stands in backquotes as code."""
    return Markup(_BACKQUOTED.sub(r"<code>\1</code>", str(escape(text))))
