"""Notebooks of the documentation, from Markdown: run them, and write them with their outputs.

    python tools/notebooks.py                    # run every notebook at full size and write docs/**/NAME.ipynb
    python tools/notebooks.py 03 --reduced       # run some at reduced sizes, and write nothing

The source of a notebook is the Markdown page of the same name, which jupytext reads: a ```python block is a cell. Three
things are added:

- The first cell installs Dragoman where it is missing.
- A ```source block, which names objects of the library, becomes a cell that shows their code.
- ``steps = 250  # reduced: 20`` is a size. Tests run the notebook with the second number. Readers see the first one.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, import-untyped"

import argparse
import importlib
import re
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
FOLDERS = ("guide", "tutorials")
TIMEOUT_SECONDS = 600
LARGEST_BYTES = 700_000
INSTALL = """\
# Installs Dragoman from the folder that this notebook came with, if it is missing.
import importlib.util

if importlib.util.find_spec("dragoman") is None:
    %pip install --quiet '../..[train]'"""
_SHOW_CODE = "from inspect import getsource"
# The text of a page explains what the sections of a docstring would repeat.
_CODE_OF = """\
def code_of(thing):
    return re.sub(r'\\n\\n +Parameters\\n.*?\"{3}', '\"' * 3, getsource(thing), flags=re.DOTALL)"""
_SIZE = re.compile(r"^(\s*\w+ = )(.+?)  # reduced: (.+)$", re.MULTILINE)
_SOURCE = re.compile(r"```source\n(.*?)\n```\n?", re.DOTALL)
_HIDDEN = {"tags": ["remove-cell"]}
_OUTPUT_ONLY = {"tags": ["remove-input"]}
_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def sources() -> list[Path]:
    """The Markdown pages that are notebooks: those with a Python cell."""
    pages = (path for folder in FOLDERS for path in sorted((ROOT / "docs" / folder).glob("[0-9]*.md")))
    return [path for path in pages if "```python" in path.read_text(encoding="utf-8")]


def notebook_of(path: Path, reduced: bool = False) -> NotebookNode:
    """The notebook of a page, without outputs."""
    text = _SOURCE.sub(_show_source, path.read_text(encoding="utf-8"))
    text = _SIZE.sub(r"\1\3" if reduced else r"\1\2", text)
    pages = {each.name for each in sources()}
    text = re.sub(
        r"\]\(([0-9]\w+)\.md\)", lambda link: f"]({link[1]}.ipynb)" if f"{link[1]}.md" in pages else link[0], text
    )
    found = jupytext.reads(text, fmt="md")
    title, *rest = found.cells
    cells = [title, nbformat.v4.new_code_cell(INSTALL), *rest]
    made = nbformat.v4.new_notebook(metadata=_METADATA)
    for number, cell in enumerate(cells):
        make = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(make(cell.source, id=f"cell-{number}", metadata=_site_tags(cell.source)))
    return made


def _site_tags(source: str) -> dict[str, list[str]]:
    """How the documentation site shows a cell: not at all, only its output, or as it is."""
    if source == INSTALL:
        return _HIDDEN
    return _OUTPUT_ONLY if source.startswith(_SHOW_CODE) else {}


def _show_source(block: re.Match[str]) -> str:
    """A cell that shows the code of the named objects, one ``module:name`` per line."""
    imports, codes = ["import re", "from IPython.display import Code"], []
    for line in block[1].split("\n"):
        module, _, name = line.strip().partition(":")
        if not name:  # a whole module
            module, _, name = module.rpartition(".")
            imports.append(f"from {module} import {name}")
            codes.append(f"code_of({name})")
            continue
        imports.append(f"from {module} import {name.partition('.')[0]}")
        codes.append(f"code_of({name}{'.fget' * isinstance(_find(module, name), property)})")
    shown = ' + "\\n\\n" + '.join(codes)
    lines = [_SHOW_CODE, *dict.fromkeys(imports), "", "", _CODE_OF, "", "", f'Code({shown}, language="python")']
    return "\n".join(["```python", *lines, "```", ""])


def _find(module: str, name: str) -> object:
    """The object of the library with this name. Raises AttributeError."""
    return reduce(getattr, name.split("."), importlib.import_module(module))


def run(notebook: NotebookNode) -> None:
    """Run a notebook in a kernel of its own, in an empty folder. Raises CellExecutionError for a cell that fails."""
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=TIMEOUT_SECONDS, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ from run to run


def main() -> int:
    """Run the chosen notebooks. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of file names [default: all notebooks]")
    parser.add_argument("--reduced", action="store_true", help="run at reduced sizes, and write nothing")
    given = parser.parse_args()
    chosen = [path for path in sources() if not given.names or path.name.startswith(tuple(given.names))]
    failed = 0
    for path in chosen:
        notebook, start = notebook_of(path, given.reduced), time.monotonic()
        try:
            run(notebook)
        except CellExecutionError as error:
            print(f"{path.relative_to(ROOT)}: {error}", file=sys.stderr)
            failed += 1
            continue
        content = nbformat.writes(notebook) + "\n"
        if not given.reduced:
            path.with_suffix(".ipynb").write_text(content, encoding="utf-8")
        print(f"{time.monotonic() - start:6.1f} s {len(content) / 1000:6.0f} kB  {path.relative_to(ROOT)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
