"""Print the cross-attention of one translation: how much each target token attends to each source token.

    python examples/attention_weights.py runs/demo "Where is the station?"

The rows are target tokens, the columns source tokens, and the numbers percent. They are means over the heads of the
last decoder layer.
"""

import argparse

import dragoman
from dragoman.visualization.inspection.attributions import decode_weights


def main() -> None:
    """Translate the text and print a table of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder or a run")
    parser.add_argument("text", help="a text to translate")
    options = parser.parse_args()

    inspection = dragoman.inspect(options.model, options.text)
    cross = inspection.of_kind("cross")
    weights = decode_weights(cross)  # (layers, heads, target tokens, source tokens)
    print(inspection.tgt.text)
    print(" " * 12 + "".join(f"{token:>12}" for token in cross.keys))
    for token, row in zip(cross.queries, weights[-1].mean(0), strict=True):
        print(f"{token:>12}" + "".join(f"{100 * weight:12.0f}" for weight in row))


if __name__ == "__main__":
    main()
