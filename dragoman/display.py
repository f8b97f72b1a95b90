"""How records display themselves in a notebook: tables without colours, so that dark themes work, and whole pages."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. The first column is aligned left, and the others right. All texts are escaped."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        sides = ["left", *["right"] * (len(texts) - 1)]
        marked = (
            f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>' for side, text in zip(sides, texts, strict=True)
        )
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><thead>{cells('th', header)}</thead><tbody>{body}</tbody></table>"


def shape_text(shape: Iterable[int]) -> str:
    """The shape of an array, such as "2 x 8 x 3"."""
    return " x ".join(map(str, shape))


def html_page(page: str) -> str:
    """A whole HTML page as a frame of a notebook, apart from the notebook's own style and scripts."""
    style = "width: 100%; height: 40em; border: 1px solid #ccc"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}"></iframe>'
