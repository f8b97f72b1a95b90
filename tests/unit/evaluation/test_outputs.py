import html
import unicodedata
from collections.abc import Callable
from functools import partial

import pytest

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.metrics import writing_differences

LINES = [pair.tgt for pair in load_phrasebook().generate(seed=5, count=200)]
NAMES = "out.de", "test.de"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (partial(unicodedata.normalize, "NFD"), "of out.de have letters with separate accents (not Unicode NFC), but"),
        (lambda line: html.escape(f"{line[:-1]} & Co."), "200 of 200 lines of out.de have HTML entities"),
        (lambda line: f"<b>{line}</b>", "200 of 200 lines of out.de have tags such as `<b>`, but 0 of test.de"),
        (lambda line: line.replace("en ", "@@ en "), "of out.de have subword markers"),
        (lambda line: f"x\t{line}", "200 of 200 lines of out.de have tabs, but 0 of test.de"),
        (str.lower, "200 of 200 lines of test.de have capitals, but 0 of out.de"),
    ],
    ids=["NFD", "HTML", "tags", "subwords", "tabs", "lower case"],
)
def test_a_difference_in_writing_is_a_warning(change: Callable[[str], str], said: str) -> None:
    changed = list(map(change, LINES))
    (warning,) = writing_differences(changed, LINES, NAMES)
    assert said in warning
    (warning,) = writing_differences(LINES, changed, NAMES[::-1])
    assert said in warning
    assert list(writing_differences(changed, changed[::-1], NAMES)) == []


def test_odd_single_lines_are_no_difference() -> None:
    odd = [unicodedata.normalize("NFD", LINES[0]), "R&D &amp; Q&A <3", "a\tb <b>", *LINES[3:]]
    assert list(writing_differences(odd, LINES, NAMES)) == []
