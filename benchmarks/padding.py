"""How much of what training computes is padding: both sides, shuffled epochs of a corpus.

    DRAGOMAN_DATA=... python benchmarks/padding.py [CONFIG] [--epochs 3]

Prepares the corpus of a configuration (Multi30k by default) in a temporary folder and prints, for several numbers of
groups a step, 1 - real / computed positions and the micro-batches a step.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from dragoman.cli.train import expanded
from dragoman.config import load_config
from dragoman.data.batching import GROUPS_PER_STEP, epoch_batches, micro_batches, padding_share
from dragoman.data.prepare import prepare
from dragoman.text.corpus import open_corpora

DEFAULT = Path(__file__).parents[1] / "configs" / "multi30k_en_de.toml"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    config = load_config([given.config])
    config = replace(config, data=expanded(config.data))
    with tempfile.TemporaryDirectory() as folder:
        train = prepare(config, open_corpora(config.data), Path(folder)).train
        for groups in (1, 2, 4, 8):
            shares, pieces = [], []
            for epoch in range(given.epochs):
                steps = epoch_batches(train, config.train.batch_tokens, config.train.seed, epoch, groups)
                batches = []
                for number in range(len(steps)):
                    indices = steps[number]
                    cut = micro_batches(
                        train.src_lengths[indices], train.tgt_lengths[indices], config.train.batch_tokens
                    )
                    batches += [indices[piece] for piece in cut]
                shares.append(padding_share(train, batches))
                pieces.append(len(batches) / len(steps))
            mark = "  (default)" if groups == GROUPS_PER_STEP else ""
            mean = sum(shares) / len(shares)
            per_step = sum(pieces) / len(pieces)
            print(f"{groups} groups a step: padding {mean:.1%}, {per_step:.1f} micro-batches a step{mark}")


if __name__ == "__main__":
    main()
