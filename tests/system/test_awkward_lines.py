"""One line in, one line out, for any line: a small version of tests/soak/test_text.py."""

from pathlib import Path

from tests.soak.awkward_text import awkward_lines, check_lines


def test_every_kind_of_line_has_its_translation_in_the_same_place(model_folder: Path) -> None:
    lines = awkward_lines(100, longest=4000)
    assert len(lines) == 100
    assert check_lines(str(model_folder), lines) == []
