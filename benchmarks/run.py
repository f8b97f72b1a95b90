"""Measures Dragoman and its peers side by side, and writes tables, a plot and all measurements. See
docs/explanation/benchmarks.md.

    python benchmarks/run.py                                         everything: hours
    python benchmarks/run.py --parts training --sizes tiny --peers torch opennmt
    python benchmarks/run.py --report                                only the tables of what has been measured

The same command continues an interrupted run, and --fresh starts a new one. DRAGOMAN_DATA names the folder with
multi30k/. Without it, random sentences replace the corpus, and BLEU is meaningless.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from side_by_side.contenders import PEERS, available
from side_by_side.corpus import Corpus, prepare
from side_by_side.environments import RECIPES, install, is_installed
from side_by_side.journal import Journal
from side_by_side.machine import facts
from side_by_side.plan import PARTS, Plan
from side_by_side.plot import draw
from side_by_side.report import markdown, median_probe, write
from side_by_side.results import tables
from side_by_side.rounds import Patience, Rounds, say, settings_of
from side_by_side.shapes import SIZES

HERE = Path(__file__).parent


def main() -> None:
    given = arguments().parse_args()
    corpus = prepare(given.folder / "corpus")
    journal_path = given.folder / f"{given.name}.jsonl"
    if given.fresh and journal_path.exists():
        journal_path.rename(journal_path.with_suffix(f".{time.strftime('%Y%m%d%H%M%S')}.jsonl"))
    plan = plan_of(given)
    patience = Patience(given.others, given.wait, given.attempts)
    rounds = Rounds(plan, Journal.open(journal_path), patience)
    if not given.report:
        say(f"{len(plan.cells())} measurements a round, {given.rounds} rounds; data: {corpus.meta['source']}")
        try:
            rounds.run(given.rounds)
        except KeyboardInterrupt:
            sys.exit(f"Stopped. The same command continues; what is finished is in {journal_path}.")
    report(given, plan, patience, rounds, corpus)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="Dragoman is always measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, help="of each measurement; longer for base where not given")
    parser.add_argument("--sentences", type=int, default=1000, help="translated a measurement; for calibration half")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="all cores by default")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(os.environ.get("BENCH_FOLDER", HERE.parent / ".bench")),
        help="for data, models, logs and measurements (or BENCH_FOLDER; .bench in the repository by default)",
    )
    parser.add_argument("--environments", type=Path, help="where the toolkits are installed (FOLDER/environments)")
    parser.add_argument("--no-install", action="store_true", help="use the toolkits that are there already")
    parser.add_argument(
        "--model-minutes", type=float, default=20, help="of training each Marian model; base begins as the tiny one"
    )
    parser.add_argument(
        "--others", type=float, default=0.1, help="share of a core above which a measurement is repeated"
    )
    parser.add_argument("--wait", type=float, default=120, help="seconds to wait for an idle machine")
    parser.add_argument("--attempts", type=int, default=3, help="for each measurement")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="for our Translator.load")
    parser.add_argument("--name", default="side_by_side", help="of the measurements and the results")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument(
        "--fresh", action="store_true", help="start again, and keep the old measurements under another name"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser


def plan_of(given: argparse.Namespace) -> Plan:
    """Plan the requested measurements that are possible: install missing peers, and train a missing model."""
    environments = given.environments or given.folder / "environments"
    toolkits = [peer for peer in given.peers if peer in RECIPES]
    if not (given.no_install or given.report):
        install(environments, toolkits)
    missing = {name for name in toolkits if not is_installed(environments, name)}
    peers = available(frozenset(given.peers), frozenset(missing))
    if left_out := set(given.peers) - peers:
        say(f"not installed and left out: {', '.join(sorted(left_out))}")
    parts = given.parts
    if set(parts) - {"training"} and not given.report:
        # The base model starts from the tiny one.
        needed = [size for size in SIZES if size in given.sizes or size == "tiny"]
        untrained = [size for size in needed if not (given.folder / "models" / size / "ctranslate2").exists()]
        parts = parts if all(make_model(given, size) for size in untrained) else ["training"]
    options = tuple(given.option)
    return Plan(
        given.folder,
        environments,
        tuple(parts),
        tuple(given.sizes),
        peers,
        given.threads,
        given.seconds,
        options,
        given.sentences,
    )


def make_model(given: argparse.Namespace, size: str) -> bool:
    """Train the model that the engines share."""
    say(f"training the {size} model that all engines translate with: {given.model_minutes:g} minutes")
    command = [sys.executable, str(HERE / "marian_model.py"), "--size", size, "--minutes", str(given.model_minutes)]
    command += ["--folder", str(given.folder), "--threads", str(given.threads)]
    if subprocess.run(command, check=False).returncode:
        say("that failed: the parts that translate are left out")
        return False
    return True


def report(given: argparse.Namespace, plan: Plan, patience: Patience, rounds: Rounds, corpus: Corpus) -> None:
    """Print the tables and write the files."""
    found = tables(rounds.journal, PARTS, corpus)
    if not found:
        sys.exit("Nothing has been measured.")
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": facts(plan.threads),
        "data": corpus.meta["source"],
        "probe": median_probe(rounds.journal),
        "settings": settings_of(plan, patience),
    }
    print(markdown(found, about))
    paths = write(given.results, given.name, found, rounds.journal, about)
    picture = paths[0].with_suffix(".svg")
    paths += [picture] if draw(found, picture) else []
    say(f"written: {', '.join(path.name for path in paths)}")
    if lacking := rounds.missing(given.rounds):
        say("still missing (the same command tries again):\n  " + "\n  ".join(lacking))


if __name__ == "__main__":
    main()
