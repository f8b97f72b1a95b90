"""What a person sees: notes on standard error, JSON, tables as text, and tables and pages in a notebook, all plain."""

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape
from typing import Any, ClassVar

# Numbers, shapes such as 2 x 8, and nothing.
_NUMBER = re.compile(r"([-+]?[\d.,]+( x \d+)*)?")
# The most lines and columns of a record as text, and the most characters of a text in a record.
_SCREEN_LINES, _SCREEN_WIDTH, _MOST_CHARACTERS = 24, 100, 2000

# What a record shows: names, and texts.
Facts = Iterable[tuple[str, str]]


def ipython_shell() -> Any:
    """The shell of IPython that runs this code, or None. In a notebook, it has a `kernel`."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_notebook() -> bool:
    """Whether this code runs in a Jupyter kernel, which can display HTML."""
    return hasattr(ipython_shell(), "kernel")


def json_text(content: Any) -> str:
    """JSON on one line. A number that is not finite becomes null, because JSON has none of them."""
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(content), ensure_ascii=False, allow_nan=False)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [*map(_finite, content)]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, the first column aligned left and the others right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join((f"{first:<{widths[0]}}", *cells)).rstrip()


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Columns of numbers and shapes are aligned right, and the others left. All texts are escaped."""
    rows = list(rows)
    columns = list(zip(*rows, strict=True))
    sides = ["right" if all(map(_NUMBER.fullmatch, column)) else "left" for column in columns] or ["left"] * len(header)

    def cells(tag: str, texts: Sequence[str]) -> str:
        marked = (
            f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>' for side, text in zip(sides, texts, strict=True)
        )
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><thead>{cells('th', header)}</thead><tbody>{body}</tbody></table>"


def shape_text(shape: Iterable[int]) -> str:
    """The shape of an array, such as "2 x 8 x 3"."""
    return " x ".join(map(str, shape))


class ShownRecord:
    """A record that shows itself: on one screen as text, and as a table in a notebook.

    It shows its fields, or the attributes in `_names`. A value that is empty or the default of its field is left out.
    """

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        return one_screen(self._facts(), type(self).__name__)

    def _repr_html_(self) -> str:
        return html_table((type(self).__name__, ""), [(name, _printable(text)) for name, text in self._facts()])

    def _facts(self) -> Facts:
        defaults = {field.name: field.default for field in fields(self) if field.repr}  # type: ignore[arg-type]
        for name in self._names or defaults:
            value = getattr(self, name)
            if value not in (None, (), defaults.get(name)):
                yield name, fact_text(value)


def one_screen(facts: Facts, title: str = "") -> str:
    """Names and texts in two columns: at most 24 lines of 100 characters. Long texts are wrapped, then cut."""
    from textwrap import TextWrapper  # the command line does not need it

    rows, margin = list(facts), "  " * bool(title)
    width = max((len(name) for name, _ in rows), default=0) + 2
    most = max(3, (_SCREEN_LINES - 1) // max(len(rows), 1))
    style = TextWrapper(_SCREEN_WIDTH, max_lines=most, placeholder=" …", break_on_hyphens=False)
    lines = [title] * bool(title)
    for name, text in rows:
        style.initial_indent = f"{margin}{name:<{width}}"
        style.subsequent_indent = " " * len(style.initial_indent)
        lines += style.wrap(_printable(text)) or [style.initial_indent.rstrip()]
    if len(lines) > _SCREEN_LINES:
        lines[_SCREEN_LINES - 1 :] = [f"… and {len(lines) - _SCREEN_LINES + 1} more lines"]
    return "\n".join(lines)


def fact_text(value: Any) -> str:
    """The value of a field as text. Items are separated by spaces, or by " | " if one has a space itself."""
    if isinstance(value, tuple):
        texts = [" ".join(map(fact_text, item)) if isinstance(item, tuple) else fact_text(item) for item in value]
        return (" | " if any(" " in text for text in texts) else " ").join(texts)
    return f"{value:,}" if type(value) is int else f"{value:.4g}" if type(value) is float else str(value)


def _printable(text: str) -> str:
    """The text on one line, without control characters and lone surrogates, cut if it is very long."""
    cut = text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
    return escape_controls(" ".join(cut.split())).encode("utf-8", "backslashreplace").decode()


def one_line(value: object) -> str:
    """The start of a value as Python shows it, on one line, for an error."""
    return f"{' '.join(repr(value).split()):.60}"


def html_page(page: str) -> str:
    """A whole HTML page as a frame of a notebook, apart from the notebook's own style and scripts."""
    style = "width: 100%; height: 40em; border: 1px solid #ccc"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}"></iframe>'


# The control characters of C0 and C1, except tab and line feed. A terminal obeys them: they could change other lines.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def has_controls(text: str) -> bool:
    """Whether a text has characters that a terminal obeys."""
    return _CONTROLS.search(text) is not None


def escape_controls(text: str) -> str:
    """The text with the characters that a terminal obeys written as in Python."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def say(message: str) -> None:
    """Print a note to standard error. With several processes of one run (`torchrun`), only the first prints."""
    if os.environ.get("RANK", "0") != "0" and "WORLD_SIZE" in os.environ:
        return
    # On a terminal, the note replaces a progress line, which is drawn again below it.
    start = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}dragoman: {escape_controls(message)}\n")
