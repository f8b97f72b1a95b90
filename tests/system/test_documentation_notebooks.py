"""The notebooks of the documentation: each runs in a real kernel at reduced sizes, and is the page it was made from."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("notebooks_tool", ROOT / "tools" / "notebooks.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["notebooks_tool"] = module
    specification.loader.exec_module(module)
    return module


TOOL = load_tool()
PAGES = TOOL.sources()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_cell_runs(page: Path) -> None:
    TOOL.run(TOOL.notebook_of(page, reduced=True))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_notebook_is_the_page_with_outputs(page: Path) -> None:
    path = page.with_suffix(".ipynb")
    notebook, expected = json.loads(path.read_text(encoding="utf-8")), TOOL.notebook_of(page)
    advice = "run `make notebooks`"
    assert ["".join(cell["source"]) for cell in notebook["cells"]] == [cell.source for cell in expected.cells], advice
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    assert outputs, advice
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert path.stat().st_size <= TOOL.LARGEST_BYTES
