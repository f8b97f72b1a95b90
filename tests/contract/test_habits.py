"""Files around the code agree with each other: versions, locks, workflows, citation, security."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import dragoman

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WRITES = {"release.yml": ["id-token", "contents"], "site.yml": ["pages", "id-token"]}
"""The permissions to write that jobs of a workflow have."""
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
    assert unpinned <= {"pypa/gh-action-pypi-publish@release/v1", "./.github/workflows/ci.yml"}
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert re.findall(r"([\w-]+): write\b", text) == WRITES.get(path.name, [])


def jobs_of(name: str) -> dict[str, Any]:
    """Return the jobs of a workflow, or none if there is no such workflow."""
    path = ROOT / ".github" / "workflows" / name
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"] if path.exists() else {}
    return found


def test_a_release_is_published_after_the_tests_and_then_gets_its_page() -> None:
    jobs = jobs_of("release.yml")
    assert jobs.get("tests", {}).get("uses") == "./.github/workflows/ci.yml"
    assert set(jobs["publish"]["needs"]) == {"tests", "build"}
    assert jobs["page"]["needs"] == "publish"
    page = jobs["page"]["steps"][-1]["run"]
    assert "tools/release.py --notes > notes.md" in page
    assert "gh release create" in page
    ours, of_ci = (
        {
            step.get("with", {}).get("name")
            for job in jobs_of(name).values()
            for step in job.get("steps", [])
            if "upload-artifact" in step.get("uses", "")
        }
        for name in ("release.yml", "ci.yml")
    )
    assert ours
    assert not ours & of_ci, "artifacts of one run have different names"


def test_the_site_that_is_built_is_deployed() -> None:
    jobs = jobs_of("site.yml")
    assert list(jobs) == ["build", "deploy"]
    *_, make, upload = jobs["build"]["steps"]
    assert make == {"run": "make docs"}
    assert (ROOT / "Makefile").read_text().count(f" {upload['with']['path']}\n") >= 1
    assert jobs["deploy"]["needs"] == "build"
    assert jobs["deploy"]["steps"][-1]["uses"].startswith("actions/deploy-pages@")


def test_every_version_of_the_changelog_begins_with_at_most_ten_highlights() -> None:
    sections = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [section.partition("]")[0] for section in sections][:2] == ["Unreleased", dragoman.__version__]
    for section in sections:
        first, *_ = re.split(r"^### ", section, flags=re.MULTILINE)[1:]
        assert first.startswith("Highlights\n"), section[:20]
        assert 1 <= len(re.findall("^- ", first, re.MULTILINE)) <= 10


def test_the_citation_is_complete_and_agrees_with_the_package() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    dates = dict(re.findall(r"^## \[([\d.]+)\] - (\S+)$", changelog, re.MULTILINE))
    assert {"cff-version", "message", "title", "type", "authors", "keywords", "references"} <= cited.keys()
    assert cited["version"] == dragoman.__version__
    assert cited.get("date-released") == dates[dragoman.__version__]
    assert cited["abstract"].rstrip(".") == PROJECT["description"]
    # The format has no AND between licenses: a list would offer a choice.
    assert cited["license"] == PROJECT["license"].split(" AND ")[0]


def test_security_names_the_supported_version_and_files_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    minor = dragoman.__version__.rpartition(".")[0]
    assert re.findall(r"^\| ([\d.]+) \| yes \|$", text, re.MULTILINE) == [minor]
    assert re.search(rf"^\| older \| no: update to {re.escape(minor)} \|$", text, re.MULTILINE)
    paths = re.findall(r"`(tests/[\w/.]+)`", text)
    assert len(paths) > 4
    assert [path for path in paths if not (ROOT / path).exists()] == []


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
