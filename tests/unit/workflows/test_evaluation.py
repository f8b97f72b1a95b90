"""Bad translations in the right order are no shift of lines."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.workflows.evaluation import check_outputs
from dragoman.workflows.progress import QUIET


def damaged(references: list[str], kept: float, seed: int) -> list[str]:
    """The references with this share of their words, and random other words instead of the rest."""
    random = Random(seed)
    words = [word for line in references for word in line.split()]
    lines = ([word if random.random() < kept else random.choice(words) for word in line.split()] for line in references)
    return [" ".join(line) for line in lines]


def phrases() -> Iterator[list[str]]:
    """References of several kinds: phrases of a pattern, each one twice, in alphabetical order, of a few words."""
    pairs = [pair.tgt for pair in load_phrasebook().generate(seed=3, count=600)]
    yield from (pairs, [line for line in pairs[:300] for _ in (0, 1)], sorted(pairs), [line[:12] for line in pairs])


@pytest.mark.parametrize("kind", range(4))
def test_bad_translations_in_the_right_order_are_no_shift(kind: int) -> None:
    references = list(phrases())[kind]
    names = "out.de", "test.de"
    for number in range(13):
        outputs = damaged(references, (0.0, 0.05, 0.1, 0.2, 0.4)[number % 5], number)
        size = (600, 300, 100, 30)[number % 4]
        check_outputs(outputs[:size], references[:size], names, True, QUIET)
    check_outputs(["Ja."] * 600, references, names, True, QUIET)


@pytest.mark.skipif("DRAGOMAN_DATA" not in os.environ, reason="set DRAGOMAN_DATA to the folder of the corpora")
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.7])
def test_real_text_in_the_right_order_is_no_shift(kept: float) -> None:
    folder = Path(os.environ["DRAGOMAN_DATA"])
    captions = gzip.decompress((folder / "multi30k" / "test_2016_flickr.de.gz").read_bytes()).decode().split("\n")
    rows = gzip.decompress((folder / "tatoeba_en_de" / "deu.txt.gz").read_bytes()).decode().split("\n")[60_000:61_000]
    for references in (captions[:-1], [row.split("\t")[1] for row in rows]):
        check_outputs(damaged(references, kept, 1), references, ("out.de", "test.de"), True, QUIET)
