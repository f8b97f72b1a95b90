"""Decodes the fields of a body: JSON, forms of both kinds, and the query.

The event loop decodes a body in one step, which blocks all other requests, and a thread would not help: Python's
decoders hold the interpreter. So the bytes are counted first, and refused if decoding would take long, and long bodies
take turns (`BodyMemory.turn`). The fields that `max_texts` and `max_chars` allow always pass, whatever characters they
have. `benchmarks/serving_attack.py` measures the longest wait.
"""

import json
import logging
import re
import sys
from binascii import a2b_qp
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from dragoman.serving.limits import Refused
from dragoman.text.lines import replace_surrogates

MULTIPART = "multipart/form-data"
# LibreTranslate's words, and then what is wrong.
MALFORMED = "The browser (or proxy) sent a request that this server could not understand: "
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a malformed form is answered, not logged
# Most bytes of JSON for each field, without the content of strings and white space: quotes, brackets, numbers ...
_STRUCTURE_BYTES = 20
# Most percent signs in a form that start no escape. Some clients do not escape them.
_MOST_PERCENT_SIGNS = 20_000
_PERCENT_SIGN = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Upload(NamedTuple):
    """A file uploaded in a form."""

    name: str
    content: bytes


def decode_json(body: bytes, most_fields: int) -> dict[str, Any]:
    """The fields of a JSON object. A byte order mark at its start is ignored. Raises Refused (400)."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # only the quotes around strings are left
    num_quotes, most = plain.count(b'"'), most_fields * _STRUCTURE_BYTES
    if num_quotes <= most:
        num_quotes += len(b"".join(plain.split(b'"')[::2]).translate(None, b" \t\r\n"))
    if num_quotes > most:
        raise Refused(400, "Invalid request: the JSON has too many values. Send it in parts.")
    try:
        value = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Refused(400, MALFORMED + "its body is not JSON in UTF-8.") from None
    if not isinstance(value, dict):
        raise Refused(400, "Invalid JSON format")
    return {key: _replace_surrogates(one) for key, one in value.items()}


def _replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which JSON can contain and UTF-8 cannot, with U+FFFD."""
    if isinstance(value, list):
        return [replace_surrogates(one) if isinstance(one, str) else one for one in value]
    return replace_surrogates(value) if isinstance(value, str) else value


def decode_urlencoded(encoded: bytes, most_fields: int) -> list[tuple[str, Any]]:
    """The fields of a query or of a form as a query. Raises Refused (400)."""
    if encoded.count(b"&") >= most_fields:
        raise Refused(400, f"Invalid request: the form may have at most {most_fields} fields")
    fields = [field.replace(b"+", b" ").partition(b"=") for field in encoded.split(b"&") if field]
    return [(unquote(name), _normalize_line_ends(unquote(value))) for name, _, value in fields]


def unquote(encoded: bytes) -> str:
    """Decode percent-escapes. `urllib.parse.unquote` takes a second and 200 MB for a megabyte of percent signs.

    Quoted-printable differs from percent-encoding in its sign only, and `a2b_qp` is machine code. Raises Refused (400).
    """
    if b"%" not in encoded:
        return encoded.decode("utf-8", "replace")
    encoded, num_signs = _PERCENT_SIGN.subn(b"%25", encoded, _MOST_PERCENT_SIGNS)
    if num_signs == _MOST_PERCENT_SIGNS:
        raise Refused(400, "Invalid request: the form has too many percent signs. Escape each as %25.")
    return a2b_qp(encoded.replace(b"=", b"=3D").replace(b"%", b"=")).decode("utf-8", "replace")


class _Parser(MultiPartParser):
    """Starlette's parser without temporary files: a full disk affects no request."""

    spool_max_size = sys.maxsize


async def decode_multipart(
    content_type: str, chunks: AsyncGenerator[bytes, None], most_fields: int, most_field_bytes: int
) -> list[tuple[str, Any]]:
    """The fields and the file of a form in parts. Raises Refused (400), and as `chunks` does.

    The parser takes each chunk as it arrives: a file of 10 MB takes 0.1 seconds.
    """
    headers = _form_headers(content_type)
    parser = _Parser(headers, chunks, max_files=1, max_fields=most_fields, max_part_size=most_field_bytes)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refused(400, f"Invalid request: {error.message}") from None
    except (Refused, ClientDisconnect, OSError, MemoryError):
        raise
    except Exception:  # the parser raises other errors for a body that is not a form
        raise Refused(400, MALFORMED + "its body is not a form in parts.") from None
    pairs: list[tuple[str, Any]] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            pairs.append((name, Upload(value.filename or "", await value.read())))
        else:
            pairs.append((name, _normalize_line_ends(value)))
    await form.close()
    return pairs


def _form_headers(content_type: str) -> Headers:
    """The content type without its charset: the parser accepts any Python codec, and some take minutes."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"").decode("latin-1")
    if '"' in boundary or "\\" in boundary:
        raise Refused(400, MALFORMED + "the boundary of its parts has a quote or backslash.")
    return Headers({"content-type": f'{MULTIPART}; boundary="{boundary}"' if boundary else MULTIPART})


def group_by_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Map each name to its value, or to a list of values if the name is repeated."""
    gathered: dict[str, list[Any]] = {}
    for name, value in pairs:
        gathered.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in gathered.items()}


def _normalize_line_ends(text: str) -> str:
    """The text with line feeds only. Browsers send a form's line ends as CR LF (HTML standard), whatever was typed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
