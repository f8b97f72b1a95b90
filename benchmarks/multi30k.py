"""Prepares Multi30k as in Wu et al. 2021: normalized punctuation, Moses tokens, lower case, no BPE.

    pip install sacremoses
    python benchmarks/multi30k.py $DRAGOMAN_DATA/multi30k --out $DRAGOMAN_DATA/multi30k_tokenised

Hyphens are not split, and nothing is escaped (such as &apos;). Neither changes the number of tokens.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from recording import read_lines, write_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with train.en.gz, train.de.gz, val.en.gz ... of multi30k/dataset")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    paths = sorted(given.folder.glob("*.gz"))
    if not paths:
        sys.exit(f"{given.folder} holds no .gz file. Give the folder of the raw texts of multi30k/dataset.")
    given.out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = given.out / path.name.removesuffix(".gz")
        lines = read_lines(path)
        write_lines(target, tokenised(lines, target.suffix[1:]))
        print(f"{len(lines):,} lines in {target}")


def tokenised(lines: Iterable[str], lang: str) -> list[str]:
    """Return lower-cased Moses tokens, separated by spaces."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang), MosesTokenizer(lang)
    return [tokenizer.tokenize(normalizer.normalize(line), return_str=True, escape=False).lower() for line in lines]


if __name__ == "__main__":
    main()
