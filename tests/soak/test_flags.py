"""Quality flags of human translations, which have few mistakes. The constructed cases are all in the unit tests."""

import time
from collections import Counter

import pytest

from dragoman.evaluation.flags import text_flags
from tests.soak.conftest import Report
from tests.soak.faulty_translations import Pair, references

REFERENCES = dict(references())
MOST_FLAGGED = 0.02


@pytest.mark.parametrize("name", REFERENCES)
def test_references_are_hardly_flagged(name: str, report: Report) -> None:
    pairs: list[Pair] = REFERENCES[name]
    start = time.process_time()
    found = [text_flags(*pair) for pair in pairs]
    microseconds = (time.process_time() - start) / len(pairs) * 1e6
    flagged, counts = sum(map(bool, found)), dict(Counter(flag for flags in found for flag in flags))
    figures = f"{flagged / len(pairs):.2%} flagged {counts}, {microseconds:.0f} µs each"
    broken = range(flagged) if flagged > MOST_FLAGGED * len(pairs) else ()
    report(f"flags: references of {name}", len(pairs), broken, figures)
