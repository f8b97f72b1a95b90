"""Toolkits with their own programs: each has one module for its configuration and command lines."""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from side_by_side.corpus import Corpus
from side_by_side.environments import programs_of
from side_by_side.processes import children_peak_rss_mb
from side_by_side.timing import MARK
from side_by_side.toolkits.eole import Eole
from side_by_side.toolkits.joeynmt import JoeyNMT
from side_by_side.toolkits.opennmt import OpenNMT
from side_by_side.toolkits.sockeye import Sockeye
from side_by_side.toolkits.toolkit import Toolkit

TOOLKITS: dict[str, type[Toolkit]] = {
    "eole": Eole,
    "joeynmt": JoeyNMT,
    "opennmt": OpenNMT,
    "sockeye": Sockeye,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the adapters that start toolkits."""
    parser.add_argument("--toolkit", choices=sorted(TOOLKITS), required=True)
    parser.add_argument("--environments", type=Path, required=True, help="folder of the peers' environments")
    parser.add_argument("--work", type=Path, required=True, help="folder for configurations, models and logs")
    parser.add_argument("--bfloat16", action="store_true", help="autocast; of these toolkits, only Eole has it on CPUs")
    parser.add_argument("--limit", type=float, default=600.0, help="a program that takes longer has failed (seconds)")


def toolkit_of(given: argparse.Namespace, purpose: str) -> Toolkit:
    """Return the toolkit that the arguments name, with a working folder for the size and the purpose."""
    work = given.work.resolve() / f"{given.toolkit}-{given.size.name}-{purpose}"
    work.mkdir(parents=True, exist_ok=True)
    programs = programs_of(given.environments.resolve(), given.toolkit)
    overrides = {"compute_dtype": "bf16"} if given.bfloat16 else {}
    return TOOLKITS[given.toolkit](Corpus(given.data.resolve()), programs, work, given.size, overrides)


def print_toolkit_result(toolkit: Toolkit, result: dict[str, Any], **more: Any) -> None:
    """Print the result of an adapter, with peak memory of its largest program and versions of its environment."""
    memory = {"peak_rss_mb": children_peak_rss_mb(), "versions": versions_of(toolkit)}
    precision = "bfloat16" if "compute_dtype" in toolkit.overrides else "float32"
    print(MARK + json.dumps(result | {"precision": precision} | memory | more), flush=True)


def versions_of(toolkit: Toolkit) -> dict[str, str]:
    """Return the versions of the toolkit and of its torch."""
    ask = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    packages = [toolkit.package, "torch"]
    versions = subprocess.check_output([toolkit.program("python"), "-c", ask, *packages], text=True).split()
    return dict(zip(packages, versions, strict=True))
