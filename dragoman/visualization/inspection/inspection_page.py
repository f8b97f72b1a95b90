"""The inspection page: one HTML file that works without a network, a server or other files.

The file contains its script and style. Its content-security policy allows them by their hashes and nothing else. The
data is in a block that is never executed, and every character that could end the block is escaped. The script inserts
text as text only, so no sentence can inject markup or code.
"""

import base64
import hashlib
import json
from dataclasses import fields
from importlib.resources import files

from dragoman.display import html_page
from dragoman.visualization.inspection.inspection import Inspection

_SCRIPTS = ("data.js", "sentence.js", "matrix.js", "decoding.js", "main.js")
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class DisplayedInspection(Inspection):
    """An inspection that a notebook displays as its page."""

    __slots__ = ()

    @classmethod
    def of(cls, inspection: Inspection) -> "DisplayedInspection":
        """The same inspection, for a notebook."""
        return cls(**{field.name: getattr(inspection, field.name) for field in fields(inspection)})

    def _repr_html_(self) -> str:
        return html_page(inspection_page(self))


def inspection_page(inspection: Inspection, explore: str = "") -> str:
    """The HTML of an inspection.

    With `explore`, alternatives are links. It is a URL with a query. With ``&prefix=`` and token ids appended, its
    server must show the page for a translation that starts with these tokens.
    """
    parts = files("dragoman.visualization.inspection").joinpath("page")
    template, style = (parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    scripts = "\n".join(parts.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n{{\n{scripts}}}\n'
    data = escape_json(_add_explore(inspection.to_json(), explore))
    filled = {"policy": _policy(script, style), "style": style, "script": script, "data": data}
    pieces = template.split("@")
    return "".join(piece if index % 2 == 0 else filled[piece] for index, piece in enumerate(pieces))


def escape_json(document: str) -> str:
    """Escape JSON for a script element: the same value, without characters that are special in HTML or scripts."""
    return document.translate(_ESCAPES)


def _add_explore(document: str, explore: str) -> str:
    return f'{document[:-1]},"explore":{json.dumps(explore)}}}' if explore else document


def _policy(script: str, style: str) -> str:
    own = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
