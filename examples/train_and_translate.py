"""Train a translator on two files with one sentence per line, and translate with it.

    python examples/train_and_translate.py train.en train.de "Where is the station?" --set max_minutes=10

Stop it with Ctrl-C at any time: the same command continues.
"""

import argparse

import dragoman


def main() -> None:
    """Train, print the scores on held-out sentences, and translate one text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", help="file of the source language")
    parser.add_argument("tgt", help="file of the target language, line for line")
    parser.add_argument("text", help="a text to translate after training")
    parser.add_argument("--out", default="run", help="folder of the run (default: run)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; repeat it for more"
    )
    options = parser.parse_args()

    settings = dict(assignment.split("=", 1) for assignment in options.set)
    run = dragoman.train(options.src, options.tgt, options.out, **settings)
    for data, scores in run.scores.items():
        print(f"{data}: {', '.join(f'{name} {value:.2f}' for name, value in scores.items())}")

    translator = run.translator()
    print(translator(options.text))


if __name__ == "__main__":
    main()
