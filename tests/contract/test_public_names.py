"""The public names are those of the Python API's page, and pages show no others."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from jaxtyping import config

import dragoman
from dragoman.errors import DragomanError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"dragoman": dragoman} | {
    f"dragoman.{name}": getattr(dragoman, name)
    for name in dragoman.__all__
    if isinstance(getattr(dragoman, name), ModuleType)
}
PUBLIC = {f"{package}.{name}" for package, module in PACKAGES.items() for name in module.__all__}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]


def listed_names(page: str) -> Iterator[str]:
    """The names in the tables and directives of the Python API's page, with their packages."""
    package = ""
    for line in page.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: ([\w.]+)", line):
            package = found[1]
        elif found := re.fullmatch(r"   (\w+)|\.\. py:data:: (\w+)", line):
            yield f"{package}.{found[1] or found[2]}"


def test_the_page_lists_every_public_name_once() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    again = {f"{package}.{name}" for package in PACKAGES if package != "dragoman" for name in dragoman.__all__}
    assert sorted(listed_names(page)) == sorted(PUBLIC - again - PACKAGES.keys() - {"dragoman.__version__"})


def used_names(code: str) -> Iterator[str]:
    """The names of the package in a program: `dragoman.model.causal_mask`, imported, or as an attribute."""
    modules: dict[str, str] = {}
    tree = ast.parse(re.sub(r"^%.*$", "", code, flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "dragoman")
            modules |= {alias.asname or "dragoman": "dragoman" for alias in node.names if alias.name == "dragoman"}
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "dragoman":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            found = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {name: module for name, module in found.items() if module in PACKAGES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"\w+(\.\w+)+", path := ast.unparse(node)):
            root, *names = path.split(".")
            owner = ".".join([modules.get(root, root), *names[:-1]])
            if owner in PACKAGES:  # else it is an attribute of a public object
                yield f"{owner}.{names[-1]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_shows_public_names_only(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    cells = [text] if page.suffix == ".py" else re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert sorted({*used_names("\n".join(cells))} - PUBLIC - PACKAGES.keys()) == []


def test_names_are_found_in_imports_and_in_attributes() -> None:
    code = "import dragoman as d\nfrom dragoman import corpora\nfrom dragoman.model import attention\n"
    code += "d.train()\nd.model.causal_mask(3).tril()\ncorpora.fetch\nother.train()"
    shown = "corpora corpora.fetch model model.attention model.causal_mask train"
    assert sorted({*used_names(code)}) == ["dragoman", *(f"dragoman.{name}" for name in shown.split())]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: dragoman.evaluation.bleu("a", "b"),
            "`hypotheses` must be a list of texts, one for each sentence, but is 'a'.",
        ),
        (
            lambda: dragoman.evaluation.chrf(["a"], "b"),
            "`references` must be a list of texts, one for each sentence, but is 'b'.",
        ),
        (
            lambda: dragoman.evaluation.bleu(["a"], ["b"], tokenize="en"),
            "`tokenize` must be one of none, zh, 13a, intl, char, ja-mecab, ko-mecab, spm, flores101, flores200, "
            "spBLEU-1K, but is 'en'.",
        ),
        (
            lambda: dragoman.training.learning_rate(0, dragoman.TrainSettings(), 8),
            "`step` must be at least 1, the first step, but is 0.",
        ),
        (
            lambda: dragoman.training.smoothed_cross_entropy(torch.zeros(2, 3, 5), torch.ones(2, 3).long(), 0.1, 0),
            "`logits` must be (M, V) and `labels` (M,), but are (2, 3, 5) and (2, 3). Write `logits.flatten(0, 1)` and "
            "`labels.flatten()`.",
        ),
        (
            lambda: dragoman.translate_html("run", "<p>A dog.</p>"),
            "`translator` must be a loaded translator, but is 'run'. Call `dragoman.load`.",
        ),
        (
            lambda: dragoman.translate_html("<p>A dog.</p>", dragoman.load("demo", device="cpu")),  # type: ignore[arg-type]
            "`translator` must be a loaded translator, but is '<p>A dog.</p>'. Call `dragoman.load`.",
        ),
        (
            lambda: dragoman.translate_srt(dragoman.load("demo", device="cpu"), b"1"),  # type: ignore[arg-type]
            "`srt` must be a string, but is b'1'.",
        ),
        (
            lambda: dragoman.translate_xml(dragoman.load("demo", device="cpu"), "<x>A dog.</x>", ignore_tags="code"),
            "`ignore_tags` must be a list of texts, but is 'code'. For a single text, pass [text].",
        ),
    ],
)
def test_a_building_block_refuses_a_wrong_argument_in_one_line(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], object], line: str
) -> None:
    monkeypatch.setattr(config, "jaxtyping_disable", True)  # users do not have the tests' checks of shapes
    with pytest.raises(DragomanError) as refusal:
        call()
    assert str(refusal.value) == line
