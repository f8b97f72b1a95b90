"""Converts a translation data set of the Hugging Face hub to JSON lines for `dragoman train --data`.

    pip install datasets
    python benchmarks/hub_corpus.py opus_books en-it --out opus_books.en-it.jsonl
    python benchmarks/hub_corpus.py parquet --files 'part-*.parquet' --out corpus.en-it.jsonl     # local files

Rows must have a column "translation" with one text per language, as the OPUS data sets have.
"""

import argparse
import json
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the data set, or parquet or json for --files")
    parser.add_argument("config", nargs="?", help="of the data set: for OPUS a pair of languages such as en-it")
    parser.add_argument("--files", help="read these instead of the hub")
    parser.add_argument("--split", default="train")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    try:
        from datasets import load_dataset
    except ImportError:
        sys.exit("The package `datasets` is missing. pip install datasets")
    rows = load_dataset(given.name, given.config, data_files=given.files, split=given.split)
    if "translation" not in rows.column_names:
        sys.exit(f'{given.name} has no column "translation"; it has {", ".join(rows.column_names)}.')
    with given.out.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"translation": row["translation"]}, ensure_ascii=False) + "\n")
    print(f"{len(rows):,} pairs in {given.out}")


if __name__ == "__main__":
    main()
