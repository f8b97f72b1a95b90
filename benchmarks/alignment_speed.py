"""Measures what word alignments cost: time and memory of translating with them, and of learning a lexicon.

    export DRAGOMAN_DATA=...                                    the folder that holds tatoeba_en_de/
    python benchmarks/alignment_speed.py [--model demo] [--rounds 7] [--pairs 1000000]

The model translates 500 sentences of Tatoeba with a beam of 5, and greedily: without alignments, with alignments by a
lexicon, and with alignments by attention. The three take turns. Seconds are medians. A ratio is the median of the
ratios within a round. Peak memory is that of a separate process for each. A model without a lexicon gets one from the
pairs of Tatoeba. The last table is about learning: it repeats the pairs of Tatoeba up to --pairs, encodes them, and
learns from those that `learn_lexicon` chooses.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from alignment import learn
from quality import columns, tatoeba
from recording import peak_bytes, read_lines, say, write_lines

from dragoman.bundle import Model, resolve_model_folder
from dragoman.inference.translator import Translator
from dragoman.records import Details
from dragoman.text.lexicon import choose_pairs, learn_lexicon
from dragoman.text.tokenization.encoding import BatchEncoder, RaggedIds

SENTENCES = 500
BEAMS = (5, 1)
LINKS = ("none", "lexicon", "attention")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("demo"), help="a model from English to German (demo)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs to learn a lexicon from")
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    data, model = Path(os.environ["DRAGOMAN_DATA"]), Model.load(resolve_model_folder(given.model), "cpu")
    if given.inside:
        report_inside(given.inside, model, data, given.pairs)
        return
    text = columns(data / "tatoeba_en_de" / "deu.txt.gz")
    texts = [src for src, _ in tatoeba(data, "en", "de")["test"]][:SENTENCES]
    with tempfile.TemporaryDirectory() as name:
        sources, lexicon = write_lines(Path(name) / "sources", texts), Path(name) / "lexicon"
        lexicon.write_bytes(model.lexicon_file or learn(model.tokenizers, text).to_bytes())
        print("| beam | links from | seconds | ratio | peak memory, MB |\n|---:|---|---:|---:|---:|")
        for beam in BEAMS:
            seconds = take_turns(model, lexicon, texts, beam, given.rounds)
            for links in LINKS:
                ratio = median(one / plain for one, plain in zip(seconds[links], seconds["none"], strict=True))
                peak = run_inside(given, "translate", links, str(beam), str(sources), str(lexicon))["peak"]
                print(
                    f"| {beam} | {links} | {median(seconds[links]):.2f} | {ratio:.2f} | {peak / 1e6:.0f} |", flush=True
                )
    found = run_inside(given, "learn")
    print("\n| pairs given | pairs learned from | seconds | memory before, MB | peak memory, MB | file, bytes |")
    print("|---:|---:|---:|---:|---:|---:|")
    memory = f"{found['before'] / 1e6:.0f} | {found['peak'] / 1e6:.0f}"
    print(f"| {given.pairs:,} | {found['chosen']:,} | {found['seconds']:.1f} | {memory} | {found['bytes']:,} |")


def take_turns(model: Model, lexicon: Path, texts: list[str], beam: int, rounds: int) -> dict[str, list[float]]:
    translators = {links: translator(model, links, lexicon) for links in LINKS}
    seconds: dict[str, list[float]] = {links: [] for links in LINKS}
    for number in range(-1, rounds):  # the first round warms up
        say(f"beam {beam}, round {number + 1} of {rounds}")
        for links, each in translators.items():
            start = time.perf_counter()
            translate(each, links, texts, beam)
            if number >= 0:
                seconds[links].append(time.perf_counter() - start)
    return seconds


def translator(model: Model, links: str, lexicon: Path) -> Translator:
    file = lexicon.read_bytes() if links == "lexicon" else b""
    return Translator.from_models([replace(model, lexicon_file=file)])


def translate(by: Translator, links: str, texts: list[str], beam: int) -> None:
    by.translate_detailed(texts, details=Details(alignment=links != "none", flags=False), beam_size=beam)


def run_inside(given: argparse.Namespace, *task: str) -> dict[str, Any]:
    """The figures of a task in a separate process."""
    command = [sys.executable, __file__, "--model", str(given.model), "--pairs", str(given.pairs), "--inside", *task]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def report_inside(task: list[str], model: Model, data: Path, num_pairs: int) -> None:
    if task[0] == "translate":
        links, beam, sources, lexicon = task[1:]
        translate(translator(model, links, Path(lexicon)), links, read_lines(Path(sources)), int(beam))
        print(json.dumps({"peak": peak_bytes()}))
        return
    text = columns(data / "tatoeba_en_de" / "deu.txt.gz")
    tokenizers = model.tokenizers
    src = repeated(BatchEncoder(tokenizers.src).encode([pair[0] for pair in text]), num_pairs)
    tgt = repeated(BatchEncoder(tokenizers.tgt).encode([pair[1] for pair in text]), num_pairs)
    before, start = peak_bytes(), time.perf_counter()
    content = learn_lexicon(src, tgt, (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)).to_bytes()
    seconds, chosen = time.perf_counter() - start, len(choose_pairs(src.lengths, tgt.lengths))
    figures = {"seconds": seconds, "before": before, "peak": peak_bytes(), "bytes": len(content), "chosen": chosen}
    print(json.dumps(figures))


def repeated(ids: RaggedIds, count: int) -> RaggedIds:
    """The rows again and again, until there are `count`."""
    whole = ids
    while len(whole) < count:
        whole = whole.concatenate(ids)
    return whole.select(np.arange(len(whole)) < count)


if __name__ == "__main__":
    main()
