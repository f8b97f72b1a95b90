"""Measures the installed size of each tool, and the time from its command to the translation of one sentence.

    make bench BENCH='--parts training --sizes tiny --rounds 1'   makes the corpus and the toolkits' environments
    python benchmarks/marian_model.py --size tiny --minutes 1     makes the model
    python benchmarks/footprint.py

Dragoman, CTranslate2 and transformers are installed in new environments with pip. The size is that of site-packages
without pip, setuptools and compiled Python files. Each tool translates with a tiny model, beam 5 and files in the
operating system's cache. The toolkits load untrained models and write 15 tokens. The report is
benchmarks/results/footprint.{json,md}.
"""

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recording import say, write_json
from side_by_side.contenders import TOOLKIT_NAMES
from side_by_side.corpus import SRC_LANG, Corpus, prepare
from side_by_side.environments import RECIPES, create, is_installed, programs_of
from side_by_side.machine import facts
from side_by_side.shapes import FORCED_TOKENS, SIZES
from side_by_side.toolkits import TOOLKITS
from side_by_side.toolkits.toolkit import Search
from side_by_side.translate_toolkit import make_model

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = {
    "Dragoman, to translate": (f"{ROOT}",),
    "Dragoman, to train": (f"{ROOT}[train]", "torch"),
    "CTranslate2": ("ctranslate2", "sentencepiece"),
    "Marian in transformers": ("transformers", "sentencepiece", "sacremoses", "torch"),
}
"""What pip installs for a tool, without a separate environment of the other benchmarks."""

NOT_COUNTED = ("pip", "setuptools", "_distutils_hack", "__pycache__")

CTRANSLATE2 = """
import sys, ctranslate2, sentencepiece
model, pieces = sys.argv[1] + "/ctranslate2", sentencepiece.SentencePieceProcessor(sys.argv[1] + "/marian/source.spm")
engine = ctranslate2.Translator(model, device="cpu", compute_type="int8")
line = pieces.encode(sys.stdin.readline().strip(), out_type=str) + ["</s>"]
print(pieces.decode(engine.translate_batch([line], beam_size=5)[0].hypotheses[0]))
"""
TRANSFORMERS = """
import sys
from transformers import MarianMTModel, MarianTokenizer
folder = sys.argv[1] + "/marian"
tokenizer, model = MarianTokenizer.from_pretrained(folder), MarianMTModel.from_pretrained(folder)
ids = tokenizer([sys.stdin.readline().strip()], return_tensors="pt")
print(tokenizer.decode(model.generate(**ids, num_beams=5)[0], skip_special_tokens=True))
"""


def main() -> None:
    given = arguments()
    corpus = prepare(given.folder / "corpus")
    sentence = corpus.texts("val", SRC_LANG)[0]
    rows = []
    for name, programs, command in tools(given, corpus):
        size = installed_bytes(programs.parent)
        seconds = [timed(command, sentence) for _ in range(1 + given.times)][1:]  # the first fills the caches
        rows.append({"tool": name, "megabytes": round(size / 1e6), "seconds": sorted(seconds)})
        say(line(rows[-1]))
    about = {"date": time.strftime("%Y-%m-%d"), "machine": facts(given.threads)}
    write_json(given.results.with_suffix(".json"), {**about, "rows": rows})
    given.results.with_suffix(".md").write_text(markdown(rows, about), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7, help="translations of each tool; the table has the median")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores, for the report")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="as for run.py")
    parser.add_argument("--environments", type=Path, help="where the tools are installed (FOLDER/environments)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "footprint")
    return parser.parse_args()


def tools(given: argparse.Namespace, corpus: Corpus) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield the name, the folder of programs and the command of each tool; the command reads a sentence."""
    environments, model = given.environments or given.folder / "environments", given.folder / "models" / "tiny"
    programs = {}
    for number, (name, requirements) in enumerate(INSTALLED.items()):
        say(f"installing: {name}")
        environment = environments / f"footprint_{number}"
        create(environment, [requirements], environment.with_suffix(".log"), "torch" in requirements)
        programs[name] = environment.resolve() / "bin"
    for name in list(INSTALLED)[:2]:
        yield name, programs[name], [str(programs[name] / "dragoman"), "translate", str(model / "dragoman")]
    for name, script in (("CTranslate2", CTRANSLATE2), ("Marian in transformers", TRANSFORMERS)):
        yield name, programs[name], [str(programs[name] / "python"), "-c", script, str(model)]
    for key in RECIPES:
        if not is_installed(environments, key):
            say(f"not installed and left out: {key}")
            continue
        work = given.folder / "toolkits" / f"{key}-tiny-translation"
        work.mkdir(parents=True, exist_ok=True)
        toolkit = TOOLKITS[key](corpus, programs_of(environments.resolve(), key), work.resolve(), SIZES["tiny"])
        make_model(toolkit, limit=600)
        search = Search(toolkit.first_lines("one", 1), toolkit.work / "one.output", 5, 1, FORCED_TOKENS)
        yield TOOLKIT_NAMES[key], toolkit.programs, toolkit.translate_command(search)


def installed_bytes(environment: Path) -> int:
    """Return the size of the packages of a virtual environment."""
    [packages] = environment.glob("lib/python*/site-packages")
    total = 0
    for folder, folders, names in os.walk(packages):
        folders[:] = [name for name in folders if name.partition("-")[0] not in NOT_COUNTED]
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total


def timed(command: list[str], sentence: str) -> float:
    """Return the seconds of a command. Raises CalledProcessError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # OpenNMT-py pickles its options into its own checkpoint
    began = time.perf_counter()
    subprocess.run(command, input=f"{sentence}\n", text=True, check=True, capture_output=True, env=environment)
    return round(time.perf_counter() - began, 3)


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    seconds = row["seconds"]
    median, least, most = (f"{value:.2f}" for value in (statistics.median(seconds), seconds[0], seconds[-1]))
    return f"| {row['tool']} | {row['megabytes']:,} | {median} ({least} to {most}) |"


def markdown(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Return the report."""
    machine = about["machine"]
    heading = [
        f"# Installed size and start, {about['date']}",
        "",
        f"{machine['processor']}, {machine['cores']} cores. Size of the installed packages, without pip and "
        "setuptools. Seconds from the command to the translation of one sentence, with a tiny model and beam 5: "
        f"median of {len(rows[0]['seconds'])}, least and most in brackets.",
        "",
        "| tool | MB | seconds |",
        "| --- | ---: | ---: |",
    ]
    return "\n".join([*heading, *map(line, rows), ""])


if __name__ == "__main__":
    main()
