"""The spelling check of `make lint` reads our files, and nothing that a command wrote into the folder."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_spelling_check_reads_no_file_that_git_ignores(tmp_path: Path) -> None:
    """`make demo` writes a run with text in two languages, and `nohup make test` its output."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignored = [line.strip("/").replace("*", "some") for line in (ROOT / ".gitignore").read_text().split()]
    assert {"runs", "build", ".bench"} <= {*ignored}
    for name in ignored:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "text.txt").write_text("We recieve it.\n")  # codespell:ignore
    assert misspelled(tmp_path) == []
    (tmp_path / "page.md").write_text("We recieve it.\n")  # codespell:ignore
    assert misspelled(tmp_path) == ["./page.md:1: recieve ==> receive"]  # codespell:ignore


def misspelled(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 65), done.stderr
    return done.stdout.splitlines()
