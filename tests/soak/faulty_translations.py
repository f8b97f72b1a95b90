"""Translations with a fault for each quality flag, and human translations, which should have none.

Faults are made from sentences of the phrasebook, so they need no data. Without DRAGOMAN_DATA the human translations are
the phrasebook's.
"""

import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.flags import FLAGS
from dragoman.records import Candidate, Translation

CASES = 20
Pair = tuple[str, str]

NUMBERS: list[Pair] = [
    ("The train leaves at 17:45.", "Der Zug fährt um 17:54 ab."),
    ("It costs 14.20 euros.", "Es kostet 41,20 Euro."),
    ("Room 209 is free.", "Zimmer 20 ist frei."),
    ("He was born in 1987.", "Er wurde 1978 geboren."),
    ("We sold 12,500 tickets.", "Wir haben 1.250 Karten verkauft."),
    ("Call 0171 555 23 12.", "Rufen Sie 0171 555 23 13 an."),
    ("Flight LH 2034 is late.", "Der Flug hat Verspätung."),
    ("He is 3 years old.", "Er ist 5 Jahre alt."),
    ("Take 2 tablets.", "Nehmen Sie 20 Tabletten."),
    ("It is on page 418.", "Es steht auf Seite 481."),
    ("The year was good.", "Das Jahr 2008 war gut."),
    ("A fine of 80 euros.", "Eine Strafe von 800 Euro."),
    ("It weighs 75.5 kg.", "Es wiegt 75,8 kg."),
    ("Between 15 and 18 people came.", "Es kamen 15 bis 80 Leute."),
    ("Chapter 7, verse 14", "Kapitel 7, Vers 41"),
    ("It happened on 24/12/2019.", "Es geschah am 24.12.2018."),
    ("Prices rose by 33 %.", "Die Preise stiegen um 3 %."),
    ("1 000 000 people", "100.000 Menschen"),
    ("Dial 112 now.", "Wählen Sie jetzt."),
    ("It is 30 degrees.", "Es sind 13 Grad."),
]
URLS: list[Pair] = [
    ("See https://example.org/a.", "Siehe https://example.org/b."),
    ("Write to mary@example.com, please.", "Schreiben Sie bitte an maria@example.com."),
    ("Go to www.example.net.", "Gehen Sie zu www.beispiel.net."),
    ("It is at http://example.com/x?y=1.", "Es ist hier."),
    ("Mail info@example.org!", "Schicken Sie eine Mail!"),
    ("(www.example.com)", "(www.example)"),
    ("Read https://example.com/docs/.", "Lesen Sie https: //example.com/docs/."),
    ("ftp://files.example.org/pub is slow.", "ftp://files.example.org/Kneipe ist langsam."),
    ("Ask bob.smith@example.co.uk.", "Fragen Sie Bob. Smith@example.co.uk."),
    ("Our page: www.example.org/en", "Unsere Seite: www.example.org/de"),
    ("Nothing here.", "Nichts hier: www.example.com."),
    ("Two: www.a.example.com and www.b.example.com.", "Zwei: www.a.example.com und www.a.example.com."),
    ("https://example.com/Path", "https://example.com/path"),
    ("Download: https://example.com/f.zip", "Herunterladen: https://example.com/f. zip"),
    ("«https://example.com»", "«https://example.de»"),
    ("user@mail.example.com wrote", "Benutzer@mail.example.com schrieb"),
    ("See www.example.com, www.example.org.", "Siehe www.example.com."),
    ("https://example.com/?q=red", "https://example.com/?q=rot"),
    ("Write to a@b.example today", "Schreiben Sie heute an a@ b.example"),
    ("http://192.0.2.7/status is up", "http://192.0.2.1/status läuft"),
]
TAGS: list[Pair] = [
    ("Press <b>OK</b>.", "Drücken Sie <b>OK."),
    ("Press <b>OK</b>.", "Drücken Sie OK."),
    ("Hello {name}!", "Hallo {Name}!"),
    ("{0} of {1}", "{0} von {0}"),
    ("%s files", "Dateien"),
    ("%d of %d", "%d von"),
    ("%1$s by %2$s", "%1$s von %1$s"),
    ("Fish &amp; chips", "Fisch & Pommes"),
    ("a &lt; b", "a < b"),
    ('<a href="x">here</a>', '<a href="y">hier</a>'),
    ("line<br/>break", "Zeilen<br>umbruch"),
    ("<g1>red</g1> car", "<g1>rotes</g2> Auto"),
    ("Total: {total.sum}", "Summe: {gesamt.summe}"),
    ("plain", "<i>schlicht</i>"),
    ("a&nbsp;b", "a b"),
    ("&#8364; 5", "€ 5"),
    ("<bpt0/>Save<ept0/>", "<bpt0/>Sichern"),
    ("Hi {user_name}, {count} new", "Hallo {user_name}, neu"),
    ("<p>One</p><p>Two</p>", "<p>Eins</p>Zwei"),
    ("{}", "()"),
]
FOREIGN = "Ω漢☃яअ字אسก한ñ€ǆʔሀ𝔘😀ʰŁ₿"
GOOD: list[Pair] = [
    ("It costs 1,200.50 euros.", "Es kostet 1.200,50 Euro."),
    ("1 000 000 people", "1.000.000 Menschen"),
    ("We met on 12/24/2019.", "Wir trafen uns am 24.12.2019."),
    ("He has 3 dogs.", "Er hat drei Hunde."),
    ("Two men", "2 Männer"),
    ("No, no, no, no!", "Nein, nein, nein, nein!"),
    ("OK", "OK"),
    ("Barack Obama", "Barack Obama"),
    ("See www.example.com.", "Siehe www.example.com!"),
    ("<b>Hello</b> {name}", "{name}, <b>hallo</b>"),
    ("٣٤ men", "34 Männer"),
    ("Good morning, everyone.", "大家早上好。"),
    ("Wait ... ", "Warte..."),
    ("Yes.", "Ja, das ist richtig."),
    ("Die Kinder, die die Katze sahen", "The children who saw the cat"),
]
"""Correct translations that resemble faulty ones."""


def made_cases() -> dict[str, list[Translation]]:
    """20 faulty translations for each flag, each of which should get the flag."""
    pairs = [(pair.src, pair.tgt) for pair in load_phrasebook().generate(seed=5, count=400)]
    pairs = [pair for pair in pairs if len(pair[0].split()) >= 6][:CASES]
    texts = {
        "loop": [(src, _looping(tgt, case)) for case, (src, tgt) in enumerate(pairs)],
        "copied": [
            (src, (src, src.lower(), src.rstrip("."), f"{src[:-1]} .")[case % 4]) for case, (src, _) in enumerate(pairs)
        ],
        "short": [
            (" ".join(src for src, _ in (pairs * 2)[case : case + 3]), tgt[: case * 3])
            for case, (_, tgt) in enumerate(pairs)
        ],
        "long": [
            (src, " ".join((tgt, *(other for _, other in pairs[case % 7 : case % 7 + 3]))))
            for case, (src, tgt) in enumerate(pairs)
        ],
        "sentence": [
            (" ".join(src for src, _ in group), " ".join(tgt for _, tgt in group[case % 2 :][:1]))
            for case in range(CASES)
            for group in [(pairs * 2)[case : case + 2]]
        ],
        "number": NUMBERS,
        "url": URLS,
        "tag": TAGS,
        "cut": pairs,
        "lost": pairs,
        "characters": [(f"{src[:9]}{char}{src[9:]}", tgt) for (src, tgt), char in zip(pairs, FOREIGN, strict=True)],
        "unsure": pairs,
    }
    return {flag: [_translation(flag, case, *pair) for case, pair in enumerate(texts[flag])] for flag in FLAGS}


def _looping(text: str, case: int) -> str:
    """A word 3 times, a phrase of 2 to 6 words, letters inside a word, ideographs: at the end or inside."""
    words = text.rstrip(".?!").split()
    size = 1 + case % 6
    if case % 10 == 8:
        return f"{text[:-1]}{words[-1][-2:] * 5}."
    if case % 10 == 9:
        return f"{'我们去城里' * 2}{'看' * (case % 4)}{'电影院' * 3}"
    again = words[-size:] * (3 if size < 4 else 1)
    return (
        " ".join((*words, *again))
        if case % 2
        else f"{' '.join((*words[:-1], *words[-1 - size : -1] * 3))} {words[-1]}."
    )


def _translation(flag: str, case: int, src: str, tgt: str) -> Translation:
    log_prob = -0.95 - case / 10 if flag == "unsure" else -0.2
    candidate = Candidate(tgt, tuple(tgt.split()), (log_prob,) * max(1, len(tgt.split())), log_prob, log_prob)
    return Translation(src, (candidate,), 1, cut=flag == "cut", lost=("{name}",) if flag == "lost" else ())


def has_new_characters(text: str) -> bool:
    """Whether a vocabulary of the phrasebook's English lacks a character."""
    return not text.isascii()


def references() -> Iterator[tuple[str, list[Pair]]]:
    """Human translations, by name of the corpus."""
    if "DRAGOMAN_DATA" not in os.environ:
        yield "phrasebook", [(pair.src, pair.tgt) for pair in load_phrasebook().generate(seed=9, count=2000)]
        return
    data = Path(os.environ["DRAGOMAN_DATA"])
    for part, languages in (("val", "en-de"), ("train", "en-de"), ("val", "de-en"), ("val", "en-fr")):
        sides = (read_lines(data / "multi30k" / f"{part}.{language}.gz") for language in languages.split("-"))
        pairs = list(zip(*sides, strict=True))
        yield f"Multi30k {part} {languages}", random.Random(1).sample(pairs, min(len(pairs), 5000))
    rows = [line.split("\t") for line in read_lines(data / "tatoeba_en_de" / "deu.txt.gz")]
    yield "Tatoeba en-de", [(row[0], row[1]) for row in random.Random(1).sample(rows, 10_000)]
    sides = (
        (data / "small_enja" / f"test.{language}").read_text(encoding="utf-8").split("\n")[:-1]
        for language in ("en", "ja")
    )
    yield "small en-ja", list(zip(*sides, strict=True))


def read_lines(path: Path) -> list[str]:
    """The lines of a compressed file."""
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
