"""Lost sentences are flagged, and sentences that people joined hardly ever."""

import gzip
import os
from pathlib import Path

import pytest

from dragoman.evaluation.flags import text_flags
from dragoman.text.corpus.opening import open_aligned, open_corpus


@pytest.mark.parametrize(
    ("src", "tgt", "is_lost"),
    [
        ("How are you? Where is the station?", "Wo ist der Bahnhof?", True),
        ("How are you? Where is the station?", "Wie geht es Ihnen? Wo ist der Bahnhof?", False),
        ("Wie geht es dir? Ich heiße Tom. Und du?", "How are you? And you?", True),
        ("私は元気です。あなたはどうですか？", "I am fine.", True),
        ("私は元気です。あなたはどうですか？", "I am fine. How are you?", False),
        ("Sorry. I did not hear you.", "Entschuldigung, ich habe Sie nicht gehört.", False),
        ("Mr. Smith met Dr. Brown at 3 p.m. on Monday.", "Am Montag um 15 Uhr traf Herr Schmidt Doktor Braun.", False),
        ("How are you? I am fine.", "สบายดีไหม ฉันสบายดี", False),
        ("One sentence alone.", "", False),
    ],
)
def test_a_lost_sentence_is_flagged(src: str, tgt: str, is_lost: bool) -> None:
    assert ("sentence" in text_flags(src, tgt)) == is_lost


@pytest.mark.data
def test_few_translations_by_people_are_flagged_and_most_without_a_sentence() -> None:
    folder = Path(os.environ["DRAGOMAN_DATA"])
    captions = open_aligned(folder / "multi30k/val.en.gz", folder / "multi30k/val.de.gz").pairs()
    memory = open_corpus(folder / "omegat_en_de/project_save.tmx.gz", src_lang="en", tgt_lang="de").pairs()
    lines = gzip.decompress((folder / "tatoeba_en_de/deu.txt.gz").read_bytes()).decode().split("\n")[:-1]
    rows = [tuple(line.split("\t")[:2]) for line in lines[7::254]]
    pairs = [*((pair.src, pair.tgt) for pair in [*list(captions)[:666], *list(memory)[::15]]), *rows]
    assert len(pairs) > 1950
    for read in (pairs, [pair[::-1] for pair in pairs]):
        assert sum("sentence" in text_flags(*pair) for pair in read) < 0.003 * len(read)
    joined = [f"{src} {other}" for (src, _), (other, _) in zip(rows[::2], rows[1::2], strict=False)]
    found = sum("sentence" in text_flags(src, tgt) for src, (_, tgt) in zip(joined, rows[::2], strict=False))
    assert found > 0.9 * len(joined)
