"""The measures of a page, with syllables as the CMU Pronouncing Dictionary has them."""

from pathlib import Path

import pytest

from tools import readability

SYLLABLES = """
translation 3 trained 1 uses 2 used 1 table 2 file 1 files 1 created 2 wanted 2 memory 3 model 2 attention 3 the 1 be 1
create 2 continue 3 issue 2 safely 2 statement 2 tokenizer 4 quality 3 settings 2 beam 1 simple 2 titles 2 source 1
sources 2 images 3 boxes 2 named 1 loaded 2 compared 2 measured 2 million 2 initial 3 partial 2 social 2 mechanism 4
""".split()


def test_syllables_are_within_one_of_the_dictionary_and_mostly_equal() -> None:
    differences = [
        readability.count_syllables(word) - int(count)
        for word, count in zip(SYLLABLES[::2], SYLLABLES[1::2], strict=True)
    ]
    assert set(differences) <= {-1, 0, 1}
    assert differences.count(0) >= 0.9 * len(differences)


def test_the_grade_is_that_of_the_published_formula() -> None:
    # 2 sentences of 3 words, 9 syllables.
    measured = readability.measure("The cat sat. Translation is simple.\n")
    assert (measured.words, measured.sentences, measured.longest_sentence_words, measured.syllables) == (6, 2, 3, 9)
    assert measured.grade == pytest.approx(0.39 * 3 + 11.8 * 9 / 6 - 15.59)


def test_a_row_is_printed_for_each_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nOne two. Three four five!\n\n```\ncode\n```\n")
    assert readability.main([str(page), str(page)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3
    assert rows[1].split()[:3] == ["5", "3", "2.5"]
