"""Installs the peers: beside Dragoman (the `bench` extra), or each in a separate virtual environment.

The toolkits require different versions of torch. Each environment therefore gets the torch under test first, then the
toolkit without its dependencies, and then the packages that its training and translation import. TORCH_INDEX names an
index of torch's builds for CPUs, as for `make`.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from recording import say

OLD_SETUPTOOLS = "setuptools<81"  # they import pkg_resources

_ONMT = (
    *("configargparse", "ctranslate2", "tensorboard", "flask", "waitress", "pyonmttok", "pyyaml", "sacrebleu"),
    *("rapidfuzz", "pyahocorasick", "fasttext-wheel", "spacy", "six", OLD_SETUPTOOLS),
)
_EOLE = (
    *(*_ONMT, "pydantic", "safetensors", "sentencepiece", "huggingface_hub", "datasets", "rich", "fastapi", "uvicorn"),
    *("pillow", "einops", "tokenizers", "subword-nmt", "pandas", "aiohttp"),
)
_JOEYNMT = (
    *("sentencepiece", "subword-nmt", "sacremoses", "sacrebleu", "pyyaml", "tensorboard", "datasets", "matplotlib"),
    *("seaborn", "pandas", "packaging", "six", "wheel", "importlib_metadata", "wrapt", "plotly", OLD_SETUPTOOLS),
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Packages to install after torch and numpy: first `alone` without dependencies, then `needed` with them."""

    alone: tuple[str, ...]
    needed: tuple[str, ...]


RECIPES = {
    "joeynmt": Recipe(("joeynmt",), _JOEYNMT),
    "opennmt": Recipe(("OpenNMT-py",), _ONMT),
    "eole": Recipe(("eole", "torch-optimi"), _EOLE),
    "sockeye": Recipe(("sockeye",), ("pyyaml", "sacrebleu", "tensorboard", OLD_SETUPTOOLS)),
}


def programs_of(environments: Path, name: str) -> Path:
    """Return the folder of an environment's programs."""
    return environments / name / "bin"


def is_installed(environments: Path, name: str) -> bool:
    """True if the environment is complete, made by `install` or by hand."""
    python = programs_of(environments, name) / "python"
    package = RECIPES[name].alone[0]
    check = f"import importlib.metadata as m; m.version({package!r}); m.version('torch')"
    return python.exists() and subprocess.run([python, "-c", check], capture_output=True).returncode == 0


def install(environments: Path, names: Sequence[str]) -> list[str]:
    """Make the missing environments, and return the names of those that failed."""
    failed = []
    for name in names:
        if is_installed(environments, name):
            continue
        say(f"installing {name} into {environments / name}")
        log = environments / f"{name}.log"
        try:
            _install_one(environments, name, log)
        except (subprocess.CalledProcessError, OSError):
            failed.append(name)
            say(f"{name} cannot be installed here and is left out: see {log}")
    return failed


def _install_one(environments: Path, name: str, log: Path) -> None:
    recipe = RECIPES[name]
    create(environments, name, [("numpy",), ("--no-deps", *recipe.alone), recipe.needed], log)


def create(environments: Path, name: str, steps: Sequence[Sequence[str]], log: Path, needs_torch: bool = True) -> None:
    """Make a new environment: first the torch under test if needed, and then `steps`, the arguments of pip."""
    environments.mkdir(parents=True, exist_ok=True)
    pip = [str(programs_of(environments, name) / "python"), "-m", "pip", "install", "--quiet"]
    torch = f"torch=={version('torch').partition('+')[0]}"
    index = [f"--index-url={os.environ['TORCH_INDEX']}"] if os.environ.get("TORCH_INDEX") else []
    venv = [sys.executable, "-m", "venv", "--clear", str(environments / name)]
    first = [[*pip, "--no-deps", *index, torch], [*pip, torch]] if needs_torch else []
    with log.open("w", encoding="utf-8") as stream:
        for command in [venv, *first, *([*pip, *step] for step in steps)]:
            subprocess.run(command, check=True, stdout=stream, stderr=subprocess.STDOUT)
