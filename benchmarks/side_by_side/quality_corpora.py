"""The corpora of `benchmarks/time_to_quality.py`, as folders that all contenders read.

DRAGOMAN_DATA names the folder of the texts. The training set has no source sentence of the validation set, and no pair
twice.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from quality import Pairs, Parts, english_telugu, multi30k, tatoeba

from side_by_side.corpus import Corpus, write_corpus

VOCAB_SIZE = 8_000
TATOEBA_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class QualityCorpus:
    """A pair of languages, the metric that scores it, and the scores whose time is reported."""

    src: str
    tgt: str
    read: Callable[[Path, str, str], Parts]
    title: str
    metric: str = "bleu"
    targets: tuple[float, ...] = (30, 35, 38)


def tatoeba_sample(data: Path, src: str, tgt: str) -> Parts:
    """A sample of the training pairs of `tatoeba`, which splits by the English side, with its validation set."""
    parts = tatoeba(data, src, tgt)
    return parts | {"train": Random(1).sample(list(dict.fromkeys(parts["train"])), TATOEBA_PAIRS)}


QUALITY_CORPORA = {
    "multi30k": QualityCorpus("en", "de", multi30k, "Multi30k, English to German"),
    "tatoeba": QualityCorpus(
        "en", "de", tatoeba_sample, f"{TATOEBA_PAIRS:,} pairs of Tatoeba, English to German", targets=(20, 25, 30)
    ),
    "english_telugu": QualityCorpus(
        "en", "te", english_telugu, "English to Telugu", metric="chrf", targets=(10, 12, 14)
    ),
}


def prepare_quality_corpus(name: str, folder: Path) -> Corpus:
    """Make the folder of a corpus once."""
    made = QUALITY_CORPORA[name]
    corpus = Corpus(folder, made.src, made.tgt)
    if (folder / "meta.json").exists():
        return corpus
    if "DRAGOMAN_DATA" not in os.environ:
        sys.exit("DRAGOMAN_DATA is not set. Set it to the folder that holds the corpora.")
    found = made.read(Path(os.environ["DRAGOMAN_DATA"]), made.src, made.tgt)
    validation = cleaned(found["validation"])
    held_out = {src for src, _ in validation}
    train = [pair for pair in dict.fromkeys(cleaned(found["train"])) if pair[0] not in held_out]
    write_corpus(corpus, {"train": train, "val": validation}, name, VOCAB_SIZE)
    return corpus


def cleaned(pairs: Pairs) -> Pairs:
    """Return the pairs with single spaces, without pairs that have an empty side."""
    spaced = [(" ".join(src.split()), " ".join(tgt.split())) for src, tgt in pairs]
    return [pair for pair in spaced if all(pair)]
