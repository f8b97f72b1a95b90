"""Measures the installed size of each tool, and the time from its command to the translation of one sentence.

    make bench BENCH='--parts training --sizes tiny --rounds 1'   makes the corpus and the toolkits' environments
    python benchmarks/marian_model.py --size tiny --minutes 1     makes the model
    python benchmarks/footprint.py

Dragoman, CTranslate2 and transformers are installed in new environments with pip. The size is that of site-packages
without pip, setuptools and compiled Python files. Each tool translates with a tiny model, beam 5 and files in the
operating system's cache. The toolkits load untrained models and write 15 tokens. The report is
benchmarks/results/footprint.md.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recording import say, write_lines
from side_by_side.contenders import TOOLKIT_NAMES
from side_by_side.corpus import SRC_LANG, Corpus, prepare
from side_by_side.environments import RECIPES, create, is_installed, programs_of
from side_by_side.machine import facts
from side_by_side.processes import run
from side_by_side.report import spread_text
from side_by_side.results import Spread
from side_by_side.shapes import FORCED_TOKENS, SIZES
from side_by_side.toolkits import toolkit_of
from side_by_side.toolkits.toolkit import Search
from side_by_side.translate_toolkit import make_model

ROOT = Path(__file__).resolve().parents[1]
NOT_COUNTED = ("pip", "setuptools", "_distutils_hack", "__pycache__")
LIMIT_SECONDS = 600.0

CTRANSLATE2 = """
import sys, ctranslate2, sentencepiece
model, pieces = sys.argv[1] + "/ctranslate2", sentencepiece.SentencePieceProcessor(sys.argv[1] + "/marian/source.spm")
engine = ctranslate2.Translator(model, device="cpu", compute_type="int8")
line = pieces.encode(open(sys.argv[2]).readline().strip(), out_type=str) + ["</s>"]
print(pieces.decode(engine.translate_batch([line], beam_size=5)[0].hypotheses[0]))
"""
TRANSFORMERS = """
import sys
from transformers import MarianMTModel, MarianTokenizer
folder = sys.argv[1] + "/marian"
tokenizer, model = MarianTokenizer.from_pretrained(folder), MarianMTModel.from_pretrained(folder)
ids = tokenizer([open(sys.argv[2]).readline().strip()], return_tensors="pt")
print(tokenizer.decode(model.generate(**ids, num_beams=5)[0], skip_special_tokens=True))
"""


def main() -> None:
    given = arguments()
    corpus = prepare(given.folder / "corpus")
    rows = []
    for name, environment, command in [*installed_tools(given, corpus), *toolkits(given, corpus)]:
        seconds = [timed(command, given.folder / "footprint.log") for _ in range(1 + given.times)]
        spread = Spread.of(seconds[1:])  # the first fills the caches
        rows.append(f"| {name} | {installed_bytes(environment) / 1e6:,.0f} | {spread_text(spread, 2)} |")
        say(rows[-1])
    about = {"date": time.strftime("%Y-%m-%d"), "machine": facts(given.threads), "times": given.times}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(markdown(rows, about), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7, help="translations of each tool; the table has the median")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores, for the report")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="as for run.py")
    parser.add_argument("--environments", type=Path, default=ROOT / ".bench" / "environments", help="of the tools")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "footprint.md")
    return parser.parse_args()


def installed_tools(given: argparse.Namespace, corpus: Corpus) -> Iterator[tuple[str, Path, list[str]]]:
    """Install each tool of pip, and yield its name, its environment and the command that translates a sentence."""
    environments, model = given.environments.resolve(), str(given.folder / "models" / "tiny")
    text = str(write_lines(given.folder / "one_sentence.txt", corpus.texts("val", SRC_LANG)[:1]))
    output = str(given.folder / "one_translation.txt")
    dragoman = ["dragoman", "translate", f"{model}/dragoman", "--input", text, "--output", output]
    for number, (name, requirements, words) in enumerate(
        (
            ("Dragoman, to translate", [str(ROOT)], dragoman),
            ("Dragoman, to train", [f"{ROOT}[train]", "torch"], dragoman),
            ("CTranslate2", ["ctranslate2", "sentencepiece"], ["python", "-c", CTRANSLATE2, model, text]),
            (
                "Marian in transformers",
                ["transformers", "sentencepiece", "sacremoses", "torch"],
                ["python", "-c", TRANSFORMERS, model, text],
            ),
        )
    ):
        say(f"installing: {name}")
        folder = f"footprint_{number}"
        create(environments, folder, [requirements], environments / f"{folder}.log", "torch" in requirements)
        yield name, environments / folder, [str(programs_of(environments, folder) / words[0]), *words[1:]]


def toolkits(given: argparse.Namespace, corpus: Corpus) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield the same for each toolkit with an environment of its own, after making its untrained model."""
    for key in RECIPES:
        if not is_installed(given.environments, key):
            say(f"not installed and left out: {key}")
            continue
        options = {"data": corpus.folder, "work": given.folder / "toolkits", "environments": given.environments}
        toolkit = toolkit_of(
            argparse.Namespace(toolkit=key, size=SIZES["tiny"], bfloat16=False, **options), "translation"
        )
        make_model(toolkit, LIMIT_SECONDS)
        search = Search(toolkit.first_lines("one", 1), toolkit.work / "one.output", 5, 1, FORCED_TOKENS)
        yield TOOLKIT_NAMES[key], toolkit.programs.parent, toolkit.translate_command(search)


def installed_bytes(environment: Path) -> int:
    """Return the size of the packages of a virtual environment."""
    [packages] = environment.glob("lib/python*/site-packages")
    total = 0
    for folder, folders, names in os.walk(packages):
        folders[:] = [name for name in folders if name.partition("-")[0] not in NOT_COUNTED]
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total


def timed(command: list[str], log: Path) -> float:
    """Return the seconds of a command, whose output is in `log`."""
    heard = run(command, log, LIMIT_SECONDS)
    if heard.code:
        sys.exit(f"{command[0]} ended with code {heard.code}: see {log}")
    return heard.seconds


def markdown(rows: Sequence[str], about: dict[str, Any]) -> str:
    """Return the report."""
    machine = about["machine"]
    heading = [
        f"# Installed size and start, {about['date']}",
        "",
        f"{machine['processor']}, {machine['cores']} cores. Size of the installed packages, without pip and "
        "setuptools. Seconds from the command to the translation of one sentence, with a tiny model and beam 5: "
        f"median of {about['times']}, least and most in brackets.",
        "",
        "| tool | MB | seconds |",
        "| --- | ---: | ---: |",
    ]
    return "\n".join([*heading, *rows, ""])


if __name__ == "__main__":
    main()
