"""Train a translator on two files with one sentence per line, and translate with it.

    python examples/train_and_translate.py train.en train.de "Where is the station?" --set train.max_minutes=10

Stop it with Ctrl-C at any time: the same command continues.
"""

import argparse
from pathlib import Path

from dragoman import Translator
from dragoman.workflows.training.settings import RunRequest, resolve_run
from dragoman.workflows.training.training import train_run


def main() -> None:
    """Train, print the scores on held-out sentences, and translate one text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", help="file of the source language")
    parser.add_argument("tgt", help="file of the target language, line for line")
    parser.add_argument("text", help="a text to translate after training")
    parser.add_argument("--out", type=Path, default=Path("run"), help="folder of the run (default: run)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; repeat it for more"
    )
    options = parser.parse_args()

    settings = {"data.train_src": options.src, "data.train_tgt": options.tgt}
    settings |= dict(assignment.split("=", 1) for assignment in options.set)
    result = train_run(resolve_run(RunRequest(overrides=settings, out=options.out)))
    assert result is not None  # it is None only in the further processes of torchrun
    print(f"{result.steps} steps; {result.reason}")
    for data, scores in result.scores.items():
        print(f"{data}: {', '.join(f'{score.name} {score.value:.2f}' for score in scores)}")

    translator = Translator.load(result.model)
    print(translator.translate([options.text])[0])


if __name__ == "__main__":
    main()
