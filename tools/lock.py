"""Writes constraints.txt and requirements.lock from pyproject.toml; needs uv.

    make lock                       # keep the versions that still fit
    make lock LOCK=--upgrade        # the newest versions

constraints.txt has a version for everything that the Makefile installs. requirements.lock has what `dragoman translate`
and `dragoman serve` need at run time, without the extra `train`, and the hashes of the files on PyPI:

    python -m pip install --no-deps --require-hashes -r requirements.lock
    python -m pip install --no-deps .

The CUDA packages of PyTorch are not in the constraints, because torch pins them itself. The hashes are in a file of
their own because one hash in a constraints file makes pip demand hashes of everything.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS, LOCK = "constraints.txt", "requirements.lock"
PYTHON = "3.11.9"  # the oldest that all dependencies support
CUDA = r"(nvidia|cuda|triton)\b"
CONSTRAINTS_HEAD = """\
# Exact versions of all that the Makefile installs, transitive dependencies included. Written by `make lock`.
# torch pins the packages that its CUDA build needs (nvidia-*, triton) itself.
"""
LOCK_HEAD = """\
# What `dragoman translate` and `dragoman serve` need at run time, with hashes.
# Written by `make lock`. tools/lock.py describes how to install it.
"""


def compile_versions(output: str, arguments: Sequence[str]) -> str:
    """Resolve pyproject.toml for every platform and Python, preferring the versions in the file `output`."""
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--universal",
        "--python-version",
        PYTHON,
    ]
    command += ["--quiet", "--no-header", "--no-annotate", "--output-file", output, *arguments]
    subprocess.run(command, cwd=ROOT, check=True)
    return (ROOT / output).read_text(encoding="utf-8")


def without_packages(text: str, names: str) -> str:
    """Remove the packages whose names match from the output of uv, with their hashes."""
    packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)
    return "".join(package for package in packages if not re.match(names, package) and not package.startswith("#"))


def main(arguments: Sequence[str]) -> None:
    """Write both files; `arguments` go to uv."""
    constraints = compile_versions(CONSTRAINTS, ["--extra", "dev", "--extra", "bench", *arguments])
    (ROOT / CONSTRAINTS).write_text(CONSTRAINTS_HEAD + without_packages(constraints, CUDA), encoding="utf-8")
    locked = compile_versions(LOCK, ["--extra", "serve", "--generate-hashes", "--constraints", CONSTRAINTS])
    (ROOT / LOCK).write_text(LOCK_HEAD + without_packages(locked, CUDA), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
