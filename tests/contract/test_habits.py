"""Files around the code agree with each other: versions, locks, workflows."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def versions_in(name: str) -> dict[str, str]:
    """Packages and versions in a file of requirements."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", "\n".join(lines), re.MULTILINE))


def names_of(requirements: list[str]) -> set[str]:
    """Names of packages, without extras and versions."""
    return {re.split(r"[\[<>=; ]", requirement)[0] for requirement in requirements}


def test_constraints_have_a_version_for_every_dependency() -> None:
    extras = [names_of(requirements) for requirements in PROJECT["optional-dependencies"].values()]
    needed = names_of(PROJECT["dependencies"]).union(*extras) - {"dragoman"}
    assert sorted(needed - versions_in("constraints.txt").keys()) == [], "run `make lock`"


def test_the_lock_has_the_constraints_versions_and_hashes_of_what_serving_needs() -> None:
    locked, constraints = versions_in("requirements.lock"), versions_in("constraints.txt")
    assert locked == {name: constraints.get(name) for name in locked}
    needed = names_of(PROJECT["dependencies"]) | names_of(PROJECT["optional-dependencies"]["serve"])
    assert needed - locked.keys() == set()
    assert "torch" not in locked
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert all("--hash=sha256:" in package for package in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_workflows_are_pinned_and_permissions_are_read_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    actions = set(re.findall(r"uses: (\S+)", text))
    unpinned = {action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)}
    assert unpinned <= {"pypa/gh-action-pypi-publish@release/v1"}
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert re.findall(r": write\b", text) == [": write"] * (path.name == "release.yml")


def test_tests_run_on_every_python_that_the_classifiers_name() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_commands_of_workflows_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {name for path in WORKFLOWS for name in re.findall(r"make ([a-z-]+)", path.read_text(encoding="utf-8"))}
    assert called <= targets
