"""The notebooks of the documentation: each runs in a real kernel at reduced sizes, and is the page it was made from."""

import json
import re
from pathlib import Path

import pytest

from tools import notebooks

PAGES = notebooks.sources()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_cell_runs(page: Path) -> None:
    notebooks.run(notebooks.notebook_of(page, reduced=True))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_notebook_is_the_page_with_outputs(page: Path) -> None:
    path = page.with_suffix(".ipynb")
    found, expected = json.loads(path.read_text(encoding="utf-8")), notebooks.notebook_of(page)
    advice = "run `make notebooks`"
    assert ["".join(cell["source"]) for cell in found["cells"]] == [cell.source for cell in expected.cells], advice
    outputs = [output for cell in found["cells"] for output in cell.get("outputs", ())]
    assert outputs, advice
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert path.stat().st_size <= notebooks.LARGEST_BYTES


ASSERTED = ("Query and key swapped", "`x + norm(sublayer(x))` called post-norm", "Mistakes with Python and torch")


def test_each_mistake_has_a_fix_and_some_sections_assert_what_happens() -> None:
    page = (notebooks.ROOT / "docs" / "guide" / "14_mistakes.md").read_text(encoding="utf-8")
    _, *sections = page.split("\n## ")
    *titles, table, _ = (section.partition("\n")[0] for section in sections)
    assert table == "Mistakes with Python and torch"
    assert set(ASSERTED) <= {*titles, table}
    for title, section in zip([*titles, table], sections, strict=False):
        assert title == table or "**Fix:**" in section, title
        assert title not in ASSERTED or "\nassert " in section, title


def test_the_chapter_on_mistakes_counts_them() -> None:
    page = (notebooks.ROOT / "docs" / "guide" / "14_mistakes.md").read_text(encoding="utf-8")
    rows = page.partition("| --- | --- | --- |\n")[2].partition("\n\n")[0].split("\n")
    assert all(re.fullmatch(r"\| [^|]+ \| [^|]+ \| [^|]+ \|", row) for row in rows)
    assert ("twenty-one common mistakes" in page) == (page.count("**Fix:**") + len(rows) == 21)
