"""Builds the guide: runs every cell of every chapter and writes one HTML page a chapter.

A chapter is a Markdown file whose name begins with its number. In it

- a ```python block is a cell: it runs, the chapter's cells share one namespace, and below it stands what it printed and
  the value of its last line, if that is an expression; a matplotlib figure is drawn.
- a ```source block names objects of the library, one a line: their source code is shown as it is.
- $...$ and $$...$$ are LaTeX, turned into MathML, which browsers draw by themselves.

    python docs/guide/build.py --out build/guide
"""

import argparse
import ast
import contextlib
import html
import importlib
import inspect
import io
import re
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.token import Token
from matplotlib.figure import Figure
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from dragoman.visualization.figures.figure import svg_of

FOLDER = Path(__file__).parent
# From build/guide, where the pages are, to the rest of the documentation.
_DOCS = "../../docs/"
_LONGEST_VALUE = 4000  # characters


class CellError(Exception):
    """A cell failed; the message names chapter, line and cause."""


@dataclass(slots=True)
class Chapter:
    """A chapter and the namespace of its cells; `render` runs them. `cells` counts those that ran."""

    path: Path
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    cells: int = 0
    figures: list[Figure] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The first heading."""
        return self.path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")

    @property
    def page(self) -> str:
        """The name of its HTML file."""
        return f"{self.path.stem}.html"

    def render(self) -> str:
        """The chapter as HTML, without the page around it. Raises CellError for the first cell that fails."""
        torch.manual_seed(1)
        torch.set_num_threads(1)  # the tensors are small: more threads gain nothing, and wait long on a busy machine
        return str(_markdown(self).render(self.path.read_text(encoding="utf-8")))

    def run(self, code: str, line: int) -> str:
        """Runs a cell that begins on a line; what it printed and showed, as HTML."""
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        # As many empty lines as stand before the cell, so that a traceback names the line of the file.
        ast.increment_lineno(tree, line)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(tree, str(self.path), "exec"), self.namespace)
                if isinstance(last, ast.Expr):
                    expression = ast.increment_lineno(ast.Expression(last.value), line)
                    value = eval(compile(expression, str(self.path), "eval"), self.namespace)
        except Exception as error:
            raise CellError(f"{self.path.name}, cell in line {line}: {traceback.format_exc(limit=-1)}") from error
        self.cells += 1
        return self._shown(printed.getvalue(), value)

    def _shown(self, printed: str, value: object) -> str:
        if isinstance(value, Figure):
            self.figures.append(value)
            drawing = _drawing(value, len(self.figures))
            return f"{_output(printed)}<figure>{drawing}</figure>"
        shown = "" if value is None else f"{value!r}\n"
        if len(shown) > _LONGEST_VALUE:
            shown = f"A notebook displays this {type(value).__name__} as a page.\n"
        return _output(printed + shown)


def _drawing(figure: Figure, number: int) -> str:
    """A figure as SVG for a page with several. Ids are unique: those that nothing refers to are left out."""
    drawing = re.sub(r"^.*?(?=<svg)|<!--.*?-->", "", svg_of(figure), flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing))
    drawing = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", drawing)
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>f{number}-", drawing)


def _output(text: str) -> str:
    return f'<pre class="output">{html.escape(text.rstrip())}</pre>' if text.strip() else ""


def _markdown(chapter: Chapter) -> MarkdownIt:
    """A renderer that runs the cells as it meets them, from top to bottom."""
    markdown = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_mathml)

    def fence(tokens: Sequence[Token], index: int, options: object, environment: object) -> str:
        token = tokens[index]
        assert token.map is not None
        kind = token.info.strip()
        if kind == "python":
            return _code(token.content) + chapter.run(token.content, token.map[0] + 1)
        if kind == "source":
            return "".join(map(_source, token.content.split()))
        return f"<pre>{html.escape(token.content)}</pre>"

    def link(tokens: Sequence[Token], index: int, options: object, environment: object) -> str:
        """Links between chapters lead to their pages."""
        target = str(tokens[index].attrs["href"])
        page = re.sub(r"^([0-9a-z_-]+)[.]md", r"\1.html", target)
        page = re.sub(r"^[.][.]/", _DOCS, page)
        return f'<a href="{html.escape(page)}">'

    markdown.renderer.rules |= {"fence": fence, "link_open": link}  # type: ignore[attr-defined]
    return markdown


def _mathml(content: str, options: dict[str, bool]) -> str:
    mathml = convert(content, display="block" if options["display_mode"] else "inline")
    return re.sub(r' xmlns="[^"]*"', "", mathml)


def _code(text: str) -> str:
    return str(highlight(text, PythonLexer(), HtmlFormatter(nowrap=False, cssclass="code")))


def _source(name: str) -> str:
    """The code of an object of the library under its name and file. Raises CellError for an unknown name."""
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
        if isinstance(found, property):
            found = found.fget
        code = inspect.cleandoc("\n" + inspect.getsource(found))
    except (ImportError, AttributeError, TypeError) as error:
        raise CellError(f"the library has no {name}: {error}") from error
    file = module_name.replace(".", "/") + ".py"
    return f'<div class="source"><p>{html.escape(file)}</p>{_code(code)}</div>'


def chapters() -> list[Chapter]:
    """All chapters in order."""
    return [Chapter(path) for path in sorted(FOLDER.glob("[0-9]*.md"))]


def page_of(chapter: Chapter, content: str, all_chapters: Sequence[Chapter]) -> str:
    """A whole HTML page: self-contained, without scripts."""
    links = ""
    for other in all_chapters:
        here = ' class="here"' if other.path == chapter.path else ""
        links += f'<li{here}><a href="{other.page}">{html.escape(other.title)}</a></li>'
    place = [other.path for other in all_chapters].index(chapter.path)
    after = all_chapters[place + 1 : place + 2]
    following = (
        f'<p class="next"><a href="{after[0].page}">Next: {html.escape(after[0].title)} →</a></p>' if after else ""
    )
    style = (FOLDER / "style.css").read_text(encoding="utf-8") + HtmlFormatter(cssclass="code").get_style_defs(".code")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f"<title>{html.escape(chapter.title)}</title><style>{style}</style></head>\n"
        f"<body><nav><p>The Transformer, from its parts</p><ol>{links}</ol></nav>\n"
        f"<main>{content}{following}</main></body></html>\n"
    )


def build(out: Path) -> None:
    """Builds all pages into a folder and says how long each took."""
    out.mkdir(parents=True, exist_ok=True)
    every = chapters()
    for chapter in every:
        start = time.perf_counter()
        (out / chapter.page).write_text(page_of(chapter, chapter.render(), every), encoding="utf-8")
        counts = f"{chapter.cells:2} cells  {len(chapter.figures)} figures"
        print(f"{time.perf_counter() - start:6.1f} s  {counts}  {chapter.title}")
    (out / "index.html").write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={every[0].page}">\n')
    print(f"the guide is {out / every[0].page}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds the guide.")
    parser.add_argument("--out", type=Path, default=Path("build/guide"))
    build(parser.parse_args().out)
