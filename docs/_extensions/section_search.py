"""Search that finds sections, ranks them by their words, and works when the site is opened from files.

Sphinx's own search finds whole pages, counts a word once per page, and fetches excerpts, which browsers refuse for
files. This extension writes ``sections.js``: every section and every documented name with its text.
``section_search.js`` ranks them in the browser.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

# How much the words of a page count. The first folder or page that a name starts with decides.
_WEIGHTS = {
    "docs/faq": 1.5,
    "docs/how-to": 1.2,
    "docs/tutorials": 1.1,
    "docs/reference/api": 0.8,
    "docs/reference/commands": 0.9,
    "docs/reference": 1.1,
    "docs": 0.9,
    "": 0.4,  # changelog, results, architecture
}


@dataclass(slots=True)
class Entry:
    """A result of the search: a section, or a documented name such as a setting."""

    title: str
    anchor: str
    text: list[str] = field(default_factory=list)


def entries_of(page: nodes.document) -> Iterator[Entry]:
    """The sections and documented names of a page. A word belongs to the innermost one."""
    found: dict[int, Entry] = {}
    for node in page.findall(lambda each: isinstance(each, nodes.section | addnodes.desc)):
        head = node.next_node(addnodes.desc_signature if isinstance(node, addnodes.desc) else nodes.title)
        anchors = (head if isinstance(node, addnodes.desc) else node) or {}
        if head is not None and anchors["ids"]:
            title = head.get("fullname") or head.astext()
            found[id(node)] = Entry(" ".join(title.split()), anchors["ids"][0])
    for text in page.findall(nodes.Text):
        ancestors = list(_ancestors(text))
        if any("cell_output" in each.get("classes", ()) or isinstance(each, nodes.title) for each in ancestors):
            continue
        owner = next((found[id(each)] for each in ancestors if id(each) in found), None)
        if owner is not None:
            owner.text.append(text.astext())
    yield from found.values()


def _ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def _weight_of(docname: str) -> float:
    return next(weight for start, weight in _WEIGHTS.items() if docname.startswith(start))


def _write_sections(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    pages = []
    for docname in sorted(app.env.found_docs):
        sections = [
            [entry.title, entry.anchor, " ".join(" ".join(entry.text).split())]
            for entry in entries_of(app.env.get_doctree(docname))
        ]
        url = app.builder.get_target_uri(docname)
        pages.append({"url": url, "weight": _weight_of(docname), "sections": sections})
    content = f"Search.setIndex({json.dumps(pages, ensure_ascii=False, separators=(',', ':'))});\n"
    (Path(app.outdir) / "sections.js").write_text(content, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", _write_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
