"""What careless writing costs some models: the same test in capitals, in lower case, without dots, with typing errors.

    python benchmarks/robustness.py plain=RUN augmented=RUN --src validation.en --ref validation.de

BLEU (13a) and chrF2 of the words: outputs and references are lower-cased and lose their final dots, so that an answer
in capitals, or without a dot, is as good as another. Typing errors are those of `data.augment_noise`, one in some 20
letters, drawn with another seed than any training has.
"""

import argparse
import random
from collections.abc import Callable
from pathlib import Path

from multi30k import read_lines
from quality import say

from dragoman.evaluation.checklists import strip_final_dots
from dragoman.evaluation.metrics import bleu, chrf
from dragoman.inference.translator import Translator
from dragoman.text.corpus.augmentation import add_typos

WAYS: dict[str, Callable[[str, int], str]] = {
    "as it is": lambda text, number: text,
    "ALL CAPS": lambda text, number: text.upper(),
    "lower case": lambda text, number: text.lower(),
    "no final dot": lambda text, number: strip_final_dots(text),
    "typing errors": lambda text, number: add_typos(text, random.Random(f"robustness {number}")),
}


def main() -> None:
    given = arguments()
    sources, references = read_lines(given.src), [strip_final_dots(line).lower() for line in read_lines(given.ref)]
    models = dict(model.split("=", 1) for model in given.models)
    lines = [
        f"| source | {' | '.join(f'{name}: BLEU, chrF2' for name in models)} |",
        f"| --- |{' --- |' * len(models)}",
    ]
    translators = {name: Translator.load(Path(run)) for name, run in models.items()}
    for way, written in WAYS.items():
        texts = [written(text, number) for number, text in enumerate(sources)]
        cells = [way]
        for translator in translators.values():
            outputs = [strip_final_dots(line).lower() for line in translator.translate(texts)]
            cells.append(f"{bleu(outputs, references).value:.2f}, {chrf(outputs, references).value:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
        say(lines[-1])
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.results:
        given.results.write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--results", type=Path, help="a file for the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
