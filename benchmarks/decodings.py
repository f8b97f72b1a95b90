"""One trained run, decoded in several ways, with and without averaged weights: scores on a set that chose none of them.

    python benchmarks/decodings.py RUN --src validation.en --ref validation.de
    python benchmarks/decodings.py RUN --src ... --ref ... --tokenize none --samples 64 --results decodings.md

Weights: the best single checkpoint, the last one, and the mean of the run's last N checkpoints for each N of --means.
Decodings: greedy, a beam with the run's own length penalty, and minimum Bayes risk over samples (nucleus --top-p) with
chrF2 as utility (Eikema & Aziz 2022). Seconds are of the whole set, loading left out.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multi30k import read_lines
from quality import say

from dragoman.bundle import Bundle, load_bundle, resolve_model_folder
from dragoman.evaluation.metrics import bleu, chrf
from dragoman.inference.translator import Translator
from dragoman.training.averaging import averaged_weights
from dragoman.training.run.checkpoint import RunFolder, set_weights


def main() -> None:
    given = arguments()
    sources, references = read_lines(given.src), read_lines(given.ref)
    lines = ["| weights | decoding | BLEU | chrF2 | seconds |", "| --- | --- | ---: | ---: | ---: |"]
    for weights, bundle in models(given.run, given.means):
        translator = Translator.from_bundles([bundle])
        for decoding, settings in decodings(translator, given).items():
            began = time.monotonic()
            outputs = translator.translate(sources, **settings)
            seconds = time.monotonic() - began
            scores = bleu(outputs, references, given.tokenize), chrf(outputs, references)
            cells = [weights, decoding, *(f"{score.value:.2f}" for score in scores), f"{seconds:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
            say(lines[-1])
    text = "\n".join([*lines, "", f"{len(sources):,} sentences; `{scores[0].signature}`, `{scores[1].signature}`."])
    if given.results:
        given.results.write_text(f"{text}\n", encoding="utf-8")
    print(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--tokenize", default="13a", help="sacreBLEU's; none for text that is tokens already")
    parser.add_argument("--means", type=int, nargs="*", default=[5, 10], metavar="N")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--results", type=Path, help="a file for the table")
    return parser.parse_args()


def models(folder: Path, means: list[int]) -> Iterator[tuple[str, Bundle]]:
    run = RunFolder(folder)
    steps = run.steps()
    best = load_bundle(resolve_model_folder(folder / "best"), "cpu")
    yield f"best checkpoint ({best.card.steps:,} steps)", best
    last = load_bundle(run.step_folder(steps[-1]), "cpu")
    yield f"last checkpoint ({last.card.steps:,} steps)", last
    for count in (count for count in means if count <= len(steps)):
        folders = [run.step_folder(step) for step in steps[-count:]]
        set_weights(last.model, averaged_weights(folders, last.model))
        yield f"mean of the last {count}", last


def decodings(translator: Translator, given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    own = translator.settings
    penalty = f"n^{own.alpha:g}" if own.length_penalty == "power" else f"((5+n)/6)^{own.alpha:g}"
    beam = own.beam_size if own.beam_size > 1 else 5
    drawn: dict[str, Any] = {"beam_size": 1, "mbr_samples": given.samples, "top_p": given.top_p}
    return {
        "greedy": {"beam_size": 1},
        f"beam {beam}, {penalty}": {"beam_size": beam},
        f"minimum Bayes risk, {given.samples} samples, top-p {given.top_p:g}": drawn,
    }


if __name__ == "__main__":
    main()
