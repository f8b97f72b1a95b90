"""The structure that ARCHITECTURE.md promises, held against the code."""

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dragoman"
MAX_FILES = 12
MAX_PARAMETERS = 6
MACHINE_CODE = ("dragoman.kernels", "dragoman.engines.compiled")
TORCH_FREE = (
    "config",
    "records",
    "files",
    "text",
    "evaluation",
    "kernels",
    "bundle",
    "engines.compiled",
    "inference.preservation",
    "serving",
)
# Lines of code and modules by package. A commit that needs more raises the row, and says why. A commit that removes
# code lowers it.
SIZES = {
    "(no package)": (942, 11),
    "bundle": (644, 5),
    "cli": (2156, 27),
    "config": (1471, 9),
    "corpora": (444, 3),
    "data": (1094, 8),
    "demo": (493, 4),
    "devices": (287, 4),
    "engines": (2486, 20),
    "evaluation": (1046, 8),
    "exchange": (930, 7),
    "inference": (1008, 7),
    "kernels": (1190, 9),
    "model": (590, 7),
    "serving": (2819, 26),
    "text": (6538, 51),
    "training": (3136, 24),
    "visualization": (2448, 21),
    "workflows": (2963, 28),
}
TORCH_FREE_FILES = (
    "inference.translator",
    "inference.verification",
    "workflows.models",
    "workflows.evaluation",
    "workflows.comparison",
    "workflows.runs",
    "workflows.training.settings",
    "visualization.report.report",
)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def test_a_package_has_at_most_twelve_files() -> None:
    files = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    assert {str(folder): count for folder, count in files.items() if count > MAX_FILES and folder.name != "cli"} == {}


def test_no_package_grows_unnoticed() -> None:
    found = Counter[str](), Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        package = parts[0] if len(parts) > 1 else "(no package)"
        found[0][package] += lines_of_code(path)
        found[1][package] += 1
    sizes = {package: (found[0][package], found[1][package]) for package in found[0]}
    grown = {
        package: f"{size} instead of at most {SIZES.get(package, (0, 0))} (lines of code, modules)"
        for package, size in sizes.items()
        if any(map(int.__gt__, size, SIZES.get(package, (0, 0))))
    }
    assert grown == {}, f"the table of the code as it is: {dict(sorted(sizes.items()))}"
    assert SIZES.keys() == sizes.keys()


def lines_of_code(path: Path) -> int:
    """The number of lines with code. Docstrings, comments and blank lines do not count."""
    tree = MODULES[name_of(path)]
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    unseen = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER", "ENCODING"}
    with path.open("rb") as file:
        code = {
            line
            for token in tokenize.tokenize(file.readline)
            if tokenize.tok_name[token.type] not in unseen
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(code - docstrings)


def test_the_counter_sees_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = [
        '"""A module."""',
        "import os  # a line",
        "",
        "# a comment",
        "def function(name: str) -> str:  # a line",
        '    """A docstring',
        '    of two lines."""',
        "    return f(",
        '        """a text',
        '        of two lines""",',
        "    )",
    ]
    path = tmp_path / "module.py"
    path.write_text("\n".join(source), encoding="utf-8")
    monkeypatch.setitem(MODULES, "module", ast.parse(path.read_text(encoding="utf-8")))
    monkeypatch.setattr(sys.modules[__name__], "name_of", lambda path: path.stem)
    assert lines_of_code(path) == 6


def test_a_file_of_the_command_line_is_a_verb_or_shared_by_verbs() -> None:
    from dragoman.cli.main import VERBS

    shared = {"main", "arguments"}
    files = {path.stem.rstrip("_") for path in (PACKAGE / "cli").glob("[!_]*.py")}
    assert files - {verb.replace("-", "_") for verb in VERBS} - shared == set()


def test_functions_have_at_most_six_parameters() -> None:
    long = {
        f"{name}.{node.name}": count
        for name, tree in MODULES.items()
        if not name.startswith(MACHINE_CODE)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := len(parameters(node))) > MAX_PARAMETERS
    }
    assert long == {}


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of the parameters, `self`, `cls` and the context of an autograd function left out."""
    given = function.args
    single = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    return [argument.arg for argument in single if argument.arg not in ("self", "cls", "ctx")]


def test_no_two_public_things_have_one_name() -> None:
    places = defaultdict(list)
    for module, tree in MODULES.items():
        for name in dict.fromkeys(top_level_names(tree)):  # overloads define one thing
            if not name.startswith("_"):
                places[name].append(module)
    repeated = {name: modules for name, modules in places.items() if len(modules) > 1}
    for name in ("run", "build_parser"):  # of every verb
        assert all(module.startswith("dragoman.cli.") for module in repeated.pop(name))
    assert repeated == {}


def top_level_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_no_module_imports_itself_through_others() -> None:
    imports = {name: set(imported_modules(tree)) - {name} for name, tree in MODULES.items()}
    while leaves := [name for name, targets in imports.items() if not targets & imports.keys()]:
        for name in leaves:
            del imports[name]
    assert {name: sorted(targets & imports.keys()) for name, targets in imports.items()} == {}


def imported_modules(node: ast.AST) -> Iterator[str]:
    """Modules of the package imported anywhere below a node, those under `if TYPE_CHECKING` left out."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                found = [f"{module}.{alias.name}" for alias in names]
                yield from (name if name in MODULES else module for name in found if module in MODULES)
        yield from imported_modules(child)


@pytest.mark.parametrize("package", [*TORCH_FREE, *TORCH_FREE_FILES])
def test_importing_a_package_of_strings_and_numbers_leaves_torch_out(package: str) -> None:
    modules = [name for name in MODULES if f"{name}.".startswith(f"dragoman.{package}.")]
    program = "\n".join([f"import {name}" for name in modules] + ["import sys", "print('torch' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_unit_tests_mirror_the_package() -> None:
    """A unit test's file is named after the module, or stands in the folder of the package, that it tests."""
    unit = ROOT / "tests" / "unit"
    strays = [
        path.relative_to(unit)
        for path in unit.rglob("test_*.py")
        if not (PACKAGE / path.relative_to(unit).parent).is_dir()
        or (path.parent == unit and f"dragoman.{path.stem.removeprefix('test_')}" not in MODULES)
    ]
    assert strays == []


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_tree_of_the_architecture_is_that_of_the_code() -> None:
    """The tree names every folder with its files, except commands. A description follows after two spaces."""
    named: dict[Path, set[str]] = {}
    above = {-1: ROOT}
    for line in ARCHITECTURE.split("```")[1].splitlines()[1:]:
        folder, files, *_ = re.split("  +", line.strip())
        depth = (len(line) - len(line.lstrip())) // 2
        above[depth] = above[depth - 1] / folder
        named[above[depth]] = set(files.split())
    found = defaultdict[Path, set[str]](set)
    for path in PACKAGE.rglob("*.py"):
        found[path.parent] |= {path.stem} - {"__init__"}
    del named[PACKAGE / "cli"], found[PACKAGE / "cli"]
    assert named == found


def test_the_floors_of_the_architecture_are_those_that_are_checked() -> None:
    rows = re.findall(r"^\| \d+ \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    written = [re.findall(r"`(\w+)`", row) for row in rows]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert written == [floor.split(" | ") for floor in contracts[0]["layers"]]


def test_the_architecture_is_short() -> None:
    before, tree, after = ARCHITECTURE.split("```")
    assert len(before.split()) + len(after.split()) <= 700
    assert len(tree.splitlines()) <= 45, "one screen"
