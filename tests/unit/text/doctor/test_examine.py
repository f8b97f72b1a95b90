from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DataError
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.text.doctor.examine import check_corpus, examine


@pytest.fixture(scope="module")
def phrases():
    return list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=4000)}.items())[:1200]


def aligned(folder: Path, src, tgt, encoding="utf-8", name="a"):
    for lang, lines in (("en", src), ("de", tgt)):
        (folder / f"{name}.{lang}").write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return open_aligned(folder / f"{name}.en", folder / f"{name}.de")


def tsv(folder: Path, pairs):
    (folder / "a.en-de.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return open_corpus(folder / "a.en-de.tsv")


def kinds(examination):
    return {finding.kind: finding for finding in examination.findings}


def test_an_intact_corpus(tmp_path, phrases):
    examination = examine(aligned(tmp_path, *zip(*phrases, strict=True)))
    assert (examination.pairs, examination.serious) == (1200, ())
    assert examination.characters == tuple(sum(map(len, side)) for side in zip(*phrases, strict=True))
    assert check_corpus(tsv(tmp_path, phrases)).pairs == 1200


def test_repeats(tmp_path, phrases):
    (src, tgt), other = phrases[0], phrases[1][1]
    found = kinds(examine(tsv(tmp_path, [*phrases, (src, tgt), (src, other), (src, other)])))
    assert (found["repeated pair"].count, found["repeated pair"].lines) == (2, (1201, 1203))
    assert (found["repeated source"].count, found["repeated source"].lines) == (1, (1202,))


def test_leaks_are_named_by_set_and_line(tmp_path, phrases):
    test = [src for src, _ in phrases[:3]]
    held_out = aligned(tmp_path, [*test, "Nobody ever said this before."], ["x"] * 4, name="test")
    found = kinds(examine(tsv(tmp_path, phrases[1:]), {"test": held_out}))
    assert (found["leak"].count, found["leak"].share, found["leak"].lines) == (2, 0.5, (2, 3))
    assert found["leak"].preview[0] == f"test 2, training 1: {test[1]}"


def test_files_of_different_lengths_are_examined_for_the_place(tmp_path, phrases):
    src, tgt = (list(side) for side in zip(*phrases, strict=True))
    del tgt[700]
    examination = examine(aligned(tmp_path, src, tgt))
    first, second = examination.findings
    assert first.message.endswith("a.de has 1,199")
    assert abs(second.lines[0] - 701) <= 5
    assert any(src[700] in row for row in second.preview)
    assert str(tmp_path / "a.de") in second.advice


def test_not_utf8_is_told_with_a_guess(tmp_path, phrases):
    src, tgt = zip(*phrases, strict=True)
    (finding,) = examine(aligned(tmp_path, src, tgt, "latin-1")).findings
    assert (finding.kind, finding.serious) == ("wrong encoding", True)
    assert "WINDOWS-1252" in finding.message
    assert finding.count == sum(not line.isascii() for line in tgt)
    found = examine(aligned(tmp_path, src, tgt, "utf-16")).findings
    assert all("UTF-16" in finding.message for finding in found)


def test_one_empty_file(tmp_path):
    with pytest.raises(DataError, match=r"a\.de is empty"):
        examine(aligned(tmp_path, ["a"], []))


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda pairs: [(pair[0], pairs[n - 1][1]) for n, pair in enumerate(pairs)], "near line 1 "),
        (lambda pairs: [(src, "immer gleich") for src, _ in pairs], "every target is the same line"),
        (lambda pairs: [(src, tgt.encode().decode("latin-1")) for src, tgt in pairs], "read as Windows-1252"),
        (lambda pairs: [*pairs, ("a " * 500_000, "b")], "1 of 1,201 pairs have a side of more .* has 1,000,000"),
        (lambda pairs: [(" ", tgt) for _, tgt in pairs], "every source is the same line"),
        (lambda pairs: [(" " * (n % 3), tgt) for n, (_, tgt) in enumerate(pairs)], "have an empty side"),
    ],
)
def test_training_refuses_what_cannot_be_right(tmp_path, phrases, damage, match):
    with pytest.raises(DataError, match=match) as caught:
        check_corpus(tsv(tmp_path, damage(phrases)))
    assert str(caught.value).startswith(str(tmp_path / "a.en-de.tsv"))
    assert "\n" not in str(caught.value)


def test_training_may_learn_to_copy(tmp_path, phrases):
    copies = tsv(tmp_path, [(src, src) for src, _ in phrases])
    assert check_corpus(replace(copies, src_lang="", tgt_lang="")).pairs == 1200
    assert check_corpus(copies, with_languages=False).pairs == 1200
    with pytest.raises(DataError, match=r"the target looks like English \(en\), not like German \(de\)"):
        check_corpus(copies)


def test_a_pattern_of_the_lines_is_seen_in_the_sample(tmp_path, phrases):
    """Every second target is the source: a sample of every second pair would see all of them or none."""
    many = [pair for pair in phrases * 3 if len(pair[0]) > 30]
    half = [(src, src if n % 2 else tgt) for n, (src, tgt) in enumerate(many * (1 + 6000 // len(many)))]
    with pytest.raises(DataError, match=r"(4[5-9]|5[0-5])% of the sampled target sides are in English"):
        check_corpus(tsv(tmp_path, half))


@pytest.mark.parametrize(("share", "serious"), [(0.75, True), (0.2, False)])
def test_one_target_for_many_sources(tmp_path, phrases, share, serious):
    pairs = [(src, "N/A" if n % 20 < 20 * share else tgt) for n, (src, tgt) in enumerate(phrases)]
    (finding,) = [one for one in examine(tsv(tmp_path, pairs)).findings if one.kind == "repeated text"]
    assert (finding.serious, finding.message) == (serious, 'sampled pairs have the target "N/A"')
    assert finding.share == pytest.approx(share, abs=0.03)
    notes: list[str] = []
    if serious:
        with pytest.raises(DataError, match='75% of the sampled pairs have the target "N/A"'):
            check_corpus(tsv(tmp_path, pairs))
    else:
        check_corpus(tsv(tmp_path, pairs), notes.append)
        assert 'sampled pairs have the target "N/A" (first: 1)' in notes[0]
