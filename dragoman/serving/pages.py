"""The translation page, its files and the API documentation. Pages load nothing from other servers.

`app.py` makes a route of each. The sources are package data: ``page/`` (HTML, CSS, JavaScript), ``docs.html`` (a
template) and ``openapi.json``, which is both served and rendered in ``/docs``. All results are cached, because they do
not change while the server runs. Browsers check for new versions each time (``no-cache``), as an update of the server
changes its files together.
"""

import json
import mimetypes
import re
import shlex
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from starlette.responses import Response

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
