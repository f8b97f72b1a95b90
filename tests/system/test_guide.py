"""The guide is correct: every cell of every chapter runs as in `make guide`, and the pages are self-contained."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("latex2mathml", reason="the guide's packages are not installed (extra `guide`)")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Build the pages. Returns their folder and the output of the builder."""
    out = tmp_path_factory.mktemp("guide")
    done = subprocess.run(
        [sys.executable, str(GUIDE / "build.py"), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out, done.stdout


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    specification = importlib.util.spec_from_file_location("guide_builder", GUIDE / "build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["guide_builder"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_ten_chapters_and_the_page_of_mistakes_are_built_and_every_cell_runs(built: tuple[Path, str]) -> None:
    out, said = built
    chapters = sorted(GUIDE.glob("[0-9]*.md"))
    assert len(chapters) >= 11
    assert {path.name for path in out.iterdir()} == {*(f"{path.stem}.html" for path in chapters), "index.html"}
    for path in chapters:
        cells = path.read_text(encoding="utf-8").count("```python")
        assert cells, path
        title = path.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ")
        assert re.search(rf" {cells} cells  \d figures  {re.escape(title)}$", said, re.MULTILINE), title


@pytest.mark.slow
def test_the_promised_results_are_on_the_pages(built: tuple[Path, str]) -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in built[0].glob("*.html")}
    assert "tensor([[1., 0., 1.],\n        [1., 1., 0.],\n        [0., 1., 1.]])" in pages["04_attention"]
    assert "= 9,206" in pages["07_stacks"]
    assert "100 of 100 sequences" in pages["10_copy_task"]
    figures = {name: page.count("<figure><svg") for name, page in pages.items()}
    assert {name for name, count in figures.items() if not count} == {"index", "02_embeddings"}
    *mistakes, exercises = pages["14_mistakes"].split("<h2>")[1:]
    assert len(mistakes) == 13
    assert exercises.startswith("Try it")
    assert all('class="output"' in section for section in mistakes)


@pytest.mark.slow
def test_pages_need_no_network_and_no_script_and_all_links_work(built: tuple[Path, str]) -> None:
    out, _ = built
    for path in out.glob("[0-9]*.html"):
        page = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in page
        assert not re.search(r"<script|<link|@import|src=\"http|url\(http", page)
        for target in re.findall(r'<a href="([^"]+)"', page):
            known = GUIDE.parent / target.removeprefix("../../docs/") if target.startswith("../") else out / target
            assert known.exists(), (path.name, target)
        identities = re.findall(r'\bid="([^"]+)"', page)
        assert len(identities) == len(set(identities)), path.name
        assert "$" not in re.sub(r"<pre.*?</pre>|<style.*?</style>", "", page, flags=re.DOTALL), path.name


def test_the_readme_lists_every_chapter() -> None:
    listed = re.findall(r"\]\(([0-9a-z_]+\.md)\)", (GUIDE / "README.md").read_text(encoding="utf-8"))
    assert listed == [path.name for path in sorted(GUIDE.glob("[0-9]*.md"))]


def test_a_cell_that_fails_is_named_by_its_line(builder: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "01_wrong.md"
    path.write_text("# Wrong\n\n```python\nfine = 1\n```\n\ntext\n\n```python\nfine\n1 / 0\n```\n")
    with pytest.raises(builder.CellError, match=r"01_wrong.md, cell in line 9(.|\n)*line 11"):
        builder.Chapter(path).render()
    path.write_text("# Wrong\n\n```source\ndragoman.model.attention:nothing\n```\n")
    with pytest.raises(builder.CellError, match=r"the library has no dragoman\.model\.attention:nothing"):
        builder.Chapter(path).render()


def test_the_output_of_a_cell_is_text_on_the_page(builder: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "01_text.md"
    path.write_text("# Text\n\n```python\nprint('<script>alert(1)</script>')\n'a & b'\n```\n")
    rendered = builder.Chapter(path).render()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\n&#x27;a &amp; b&#x27;" in rendered
    assert "<script" not in rendered
