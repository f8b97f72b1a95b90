"""Formulas as MathML, which browsers draw without a script or a font from another site."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _write_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _write_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def _mathml(formula: str, display: str) -> str:
    return re.sub(r' xmlns="[^"]*"', "", convert(formula, display=display))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
