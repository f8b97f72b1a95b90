"""The notebooks of the documentation: each runs in a real kernel at reduced sizes, and is the page it was made from."""

import json
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


ASSERTED = (
    "`super().__init__()` left out",
    "`forward` without `return`",
    "Query and key swapped",
    "`x + norm(sublayer(x))` called post-norm",
    '"Layer norm and attention are linear"',
)


def test_a_mistake_has_its_correct_form_and_the_new_ones_assert_what_happens() -> None:
    page = (notebooks.ROOT / "docs" / "guide" / "14_mistakes.md").read_text(encoding="utf-8")
    _, *sections = page.split("\n## ")
    *titles, _ = (section.partition("\n")[0] for section in sections)
    assert set(ASSERTED) <= set(titles)
    for title, section in zip(titles, sections, strict=False):
        assert "**Fix:**" in section, title
        assert title not in ASSERTED or "\nassert " in section, title
