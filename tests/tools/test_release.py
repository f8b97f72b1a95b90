"""The checks before a release, each on a project of a few files."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from dragoman.kernels.processor import BYTE_TARGETS, FLOAT_TARGETS
from tools import release
from tools.release import NotReady

ROOT = Path(__file__).parents[2]
ADDRESS = "https://github.com/OWNER/dragoman"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository that is ready to be released as 1.2.3."""
    files = {
        "dragoman/version.py": f'__version__ = "1.2.3"\n\nREPOSITORY = "{ADDRESS}"\n',
        "CITATION.cff": f'version: 1.2.3\ndate-released: "2026-11-24"\nrepository-code: {ADDRESS}\n',
        "pyproject.toml": '[project]\ndynamic = ["version"]\n',
        "CHANGELOG.md": "## [Unreleased]\n\n## [1.2.3] - 2026-11-24\n\n- A change.\n\n## [1.2.2] - 2026-01-01\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "Start")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_project_that_is_ready_passes(project: Path) -> None:
    for check in (release.check_version, release.check_repository, release.check_changelog, release.check_tag):
        check(project)
    release.check_tree(project)
    assert release.read_notes(project) == "- A change."
    release.check_tag(project, "v1.2.3")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("dragoman/version.py", "1.2.3", "1.2", "has no line `__version__"),
        ("CITATION.cff", "1.2.3", "1.2.2", "must be 1.2.3, but is 1.2.2"),
        ("CITATION.cff", "version: 1.2.3", "", "but is missing"),
        ("pyproject.toml", 'dynamic = ["version"]', 'version = "1.2.3"', "is its only place"),
    ],
)
def test_a_version_in_two_places_or_none_is_refused(project: Path, file: str, old: str, new: str, message: str) -> None:
    replace_in(project / file, old, new)
    with pytest.raises(NotReady, match=message):
        release.check_version(project)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("dragoman/version.py", ADDRESS, "", "must be the address of the repository, such as .* Set it"),
        ("dragoman/version.py", "https://", "", "must be the address of the repository, such as .* Set it"),
        ("CITATION.cff", "OWNER", "OTHER", f"has no line `repository-code: {ADDRESS}`"),
    ],
)
def test_a_release_without_the_address_of_the_repository_is_refused(
    project: Path, file: str, old: str, new: str, message: str
) -> None:
    replace_in(project / file, old, new)
    with pytest.raises(NotReady, match=message):
        release.check_repository(project)


def test_the_command_says_in_one_line_that_the_address_is_not_set(project: Path) -> None:
    replace_in(project / "dragoman/version.py", ADDRESS, "")
    (project / "tools").mkdir()
    script = shutil.copy(ROOT / "tools" / "release.py", project / "tools")
    done = subprocess.run([sys.executable, script, "--only", "repository"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("repository: `REPOSITORY` in dragoman/version.py must be the address")
    assert done.stderr.count("\n") == 1


def test_the_date_of_the_citation_is_that_of_the_changelog(project: Path) -> None:
    replace_in(project / "CITATION.cff", "2026-11-24", "2026-11-23")
    with pytest.raises(NotReady, match=r'CITATION\.cff has no line `date-released: "2026-11-24"`'):
        release.check_changelog(project)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Message]:
    """The metadata that the project is built with: without an address, and with one."""
    return {address: metadata(tmp_path_factory.mktemp("built"), address) for address in ("", ADDRESS)}


def metadata(folder: Path, address: str) -> Message:
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    for name in ("dragoman", "out"):
        (folder / name).mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(ROOT / "dragoman" / name, folder / "dragoman")
    version = folder / "dragoman" / "version.py"
    version.write_text(re.sub('^REPOSITORY = ".*"$', f'REPOSITORY = "{address}"', version.read_text(), flags=re.M))
    program = "from setuptools.build_meta import prepare_metadata_for_build_wheel as p; p('out')"
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True)
    return Parser().parsestr(next((folder / "out").glob("*/METADATA")).read_text(encoding="utf-8"))


def test_links_and_authors_of_the_package_come_from_the_address(built: dict[str, Message]) -> None:
    fields = ("Author", "Project-URL", "Home-page")
    assert [built[""].get_all(field) for field in fields] == [None] * 3
    urls = dict(line.split(", ") for line in built[ADDRESS].get_all("Project-URL") or [])
    assert {urls.get("Source"), urls.get("Issues")} == {ADDRESS, f"{ADDRESS}/issues"}
    assert built[ADDRESS]["Author"] == "The Dragoman maintainers"
    for metadata in built.values():
        assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-2.0"
        assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
        assert metadata["Description-Content-Type"] == "text/markdown"


def test_links_and_pictures_of_the_readme_are_absolute_in_the_package(built: dict[str, Message]) -> None:
    """Relative links lead nowhere on the page of a package. Each becomes a link to the same file in this version."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = [link for link in re.findall(r"\]\(([^()\s]+)\)", readme) if "://" not in link]
    assert len(relative) > 20
    assert str(built[""].get_payload()).strip() == readme.strip()
    published, version = str(built[ADDRESS].get_payload()), release.read_version(ROOT)
    found = re.findall(r"\]\(([^()\s]+)\)", published)
    pictures = re.findall(r"!\[[^]]*\]\(([^()\s]+)\)", readme)
    assert [link for link in found if "://" not in link and not link.startswith("#")] == []
    for link in relative:
        view = "raw" if link in pictures else "blob"
        assert f"{ADDRESS}/{view}/v{version}/{link}" in found
        assert (ROOT / link.partition("#")[0]).exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## [Unreleased]\n", "## [Unreleased]\n\n- New.\n", r"below \[Unreleased\]\. Move them"),
        (" - 2026-11-24", "", r"must be `## \[1\.2\.3\] - DATE`, but is `\[1\.2\.3\]`"),
        ("2026-11-24", "2026-11-31", "which is no day"),
        ("[1.2.3]", "[1.2.4]", r"but is `\[1\.2\.4\] - 2026-11-24`"),
        ("- A change.", "", "has no changes"),
    ],
)
def test_a_changelog_without_a_dated_section_for_the_version_is_refused(
    project: Path, old: str, new: str, message: str
) -> None:
    replace_in(project / "CHANGELOG.md", old, new)
    with pytest.raises(NotReady, match=message):
        release.check_changelog(project)


def test_a_tag_that_exists_or_is_another_version_is_refused(project: Path) -> None:
    with pytest.raises(NotReady, match=r"must be v1\.2\.3, but is v1\.2\.4"):
        release.check_tag(project, "v1.2.4")
    git(project, "tag", "v1.2.3")
    with pytest.raises(NotReady, match=r"The tag v1\.2\.3 exists"):
        release.check_tag(project)
    release.check_tag(project, "v1.2.3")


def test_a_changed_tree_is_refused(project: Path) -> None:
    (project / "new").touch()
    (project / "newer").touch()
    with pytest.raises(NotReady, match=r"not clean: \?\? new and 1 more\. Commit or remove"):
        release.check_tree(project)


@pytest.mark.parametrize("missing", ["wheel", "sdist", None])
def test_a_package_without_a_tracked_file_is_refused(tmp_path: Path, missing: str | None) -> None:
    wheel, sdist = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dragoman/a.py", "")
        if missing != "wheel":
            archive.writestr("dragoman/page.html", "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("dragoman/a.py", "pyproject.toml") + (() if missing == "sdist" else ("dragoman/page.html",)):
            archive.addfile(tarfile.TarInfo(f"a/{name}"))
    tracked = {"dragoman/a.py", "dragoman/page.html", "pyproject.toml"}
    if missing is None:
        release.check_contents(wheel, sdist, tracked)
        return
    with pytest.raises(NotReady, match=r"lacks dragoman/page\.html\. Add it"):
        release.check_contents(wheel, sdist, tracked)


def test_a_wheel_without_all_machine_code_is_refused(tmp_path: Path) -> None:
    assert 2 * len(FLOAT_TARGETS) + len(BYTE_TARGETS) == release.NUM_LIBRARIES
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dragoman/engines/compiled/libraries/some.so", "")
    release.check_machine_code(wheel, 1)
    for expected in (0, 8):
        with pytest.raises(NotReady, match=rf"a\.whl must have {expected} libraries of machine code, but has 1\."):
            release.check_machine_code(wheel, expected)


def test_a_package_that_was_not_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=r"has not written a\.whl"):
        release.check_contents(tmp_path / "a.whl", tmp_path / "a.tar.gz", set())


def test_a_failed_check_is_one_line_and_exit_code_1(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "ROOT", project)
    assert release.main(["--only", "version", "--only", "tree"]) == 0
    (project / "new").touch()
    assert release.main(["--only", "version", "--only", "tree"]) == 1
    output = capsys.readouterr()
    assert output.out == "version: ready\ntree: ready\nversion: ready\n"
    assert output.err == "tree: The working tree is not clean: ?? new. Commit or remove the changes.\n"


def test_this_project_has_one_version() -> None:
    release.check_version(ROOT)
