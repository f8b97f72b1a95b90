"""Quality flags of human translations, which have few mistakes, and of translations with planted faults.

The table of docs/reference/flags.md: ``DRAGOMAN_DATA=DATA pytest tests/soak/test_flags.py``
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.evaluation.flags import text_flags
from tests.soak.conftest import Report
from tests.soak.faulty_translations import Pair, references
from tests.soak.planted_faults import KINDS, Fault, has_number, planted_faults, real_pairs

REFERENCES = dict(references())
MOST_FLAGGED = 0.02
PAIRS, SHARES = 2000, {"Multi30k": 0.4, "Tatoeba": 0.4, "OmegaT": 0.2}
LANGUAGES = ("en", "de")
REPORTED_HALF = 1
# Human translations change some numbers: "two men, one in red and one in blue" becomes "a man in red and one in blue".
MOST_FLAGGED_WITH_NUMBERS = 0.04
needs_data = pytest.mark.skipif("DRAGOMAN_DATA" not in os.environ, reason="needs the corpora in DRAGOMAN_DATA")


@pytest.mark.parametrize("name", REFERENCES)
def test_references_are_hardly_flagged(name: str, report: Report) -> None:
    pairs: list[Pair] = REFERENCES[name]
    start = time.process_time()
    found = [text_flags(*pair) for pair in pairs]
    microseconds = (time.process_time() - start) / len(pairs) * 1e6
    figures = f"{_figures(found)}, {microseconds:.0f} µs each"
    flagged = sum(map(bool, found))
    broken = range(flagged) if flagged > MOST_FLAGGED * len(pairs) else ()
    report(f"flags: references of {name}", len(pairs), broken, figures)


def _figures(found: Sequence[Sequence[str]]) -> str:
    counts = dict(Counter(flag for flags in found for flag in flags))
    return f"{sum(map(bool, found)) / len(found):.2%} flagged {counts}"


@pytest.fixture(scope="module")
def corpora() -> dict[str, list[Pair]]:
    return real_pairs(Path(os.environ["DRAGOMAN_DATA"]), REPORTED_HALF)


@needs_data
@pytest.mark.parametrize("order", [1, -1], ids=["en-de", "de-en"])
@pytest.mark.parametrize("numbers", [False, True], ids=["any", "numbers"])
def test_good_pairs_are_hardly_flagged(
    order: int, numbers: bool, corpora: dict[str, list[Pair]], report: Report
) -> None:
    pairs = []
    for name, share in SHARES.items():
        pairs += [pair for pair in corpora[name] if not numbers or has_number(pair)][: round(share * PAIRS)]
    found = [text_flags(*pair[::order], LANGUAGES[::order]) for pair in pairs]  # type: ignore[call-arg]
    flagged = sum(map(bool, found))
    limit = MOST_FLAGGED_WITH_NUMBERS if numbers else 0.01
    broken = range(flagged) if flagged > limit * PAIRS else ()
    text = f"flags: good pairs {'with numbers' if numbers else 'of any kind'}, {'-'.join(LANGUAGES[::order])}"
    report(text, len(pairs), broken, _figures(found))


@needs_data
def test_planted_faults_are_flagged(corpora: dict[str, list[Pair]], report: Report) -> None:
    planted, rows = 0, []
    missed: list[Fault] = []
    for kind, faults in planted_faults(corpora, PAIRS):
        before = [text_flags(fault.src, fault.good, LANGUAGES) for fault in faults]
        after = [text_flags(fault.src, fault.faulty, LANGUAGES) for fault in faults]
        lost = [fault for fault, old, new in zip(faults, before, after, strict=True) if not set(new) - set(old)]
        planted, missed = planted + len(faults), missed + lost
        rows.append(f"{kind} {1 - len(lost) / len(faults):.1%} of {len(faults)}, {sum(map(bool, before))} before")
    assert planted == PAIRS
    assert len(rows) == len(KINDS) == 12
    broken = missed if len(missed) > 0.1 * planted else ()
    report("flags: planted faults", planted, broken, f"{1 - len(missed) / planted:.1%} flagged: {'; '.join(rows)}")


@needs_data
def test_tags_of_a_real_memory_are_hardly_flagged(report: Report) -> None:
    pairs = [pair for half in (0, 1) for pair in real_pairs(Path(os.environ["DRAGOMAN_DATA"]), half)["OmegaT"]]
    found = [text_flags(*pair, LANGUAGES) for pair in pairs]
    counts = Counter(flag for flags in found for flag in flags)
    broken = [flag for flag in ("copied", "tag") if counts[flag] >= 20]
    report("flags: the OmegaT memory", len(pairs), broken, _figures(found))
