"""Score a model on a test set, and tell whether it differs from other translations of the same test.

    python examples/evaluate_and_compare.py runs/demo test.en test.de other.de

The other system is a file with one translation per line, or a second model.
"""

import argparse

import dragoman


def main() -> None:
    """Print the scores with intervals and signatures, then the verdict of the significance tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder or a run")
    parser.add_argument("src", help="sources of the test")
    parser.add_argument("ref", help="reference translations")
    parser.add_argument("other", help="a file of translations, or another model")
    options = parser.parse_args()

    report = dragoman.evaluate(options.model, options.src, options.ref)
    for score in report.whole.scores:
        print(score)

    comparison = dragoman.compare(options.model, options.other, options.src, options.ref)
    for metric in comparison.metrics:
        print(f"{metric.a.name}: A {metric.a.value:.2f}, B {metric.b.value:.2f}")
    print(comparison.verdict)


if __name__ == "__main__":
    main()
