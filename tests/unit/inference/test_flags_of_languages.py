"""Flags of a translator that knows its languages. The search returns chosen translations instead of a model's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dragoman.bundle import Card, Model
from dragoman.config import InferenceSettings
from dragoman.engines.interface import Source
from dragoman.inference.translator import Translator
from dragoman.records import Hypothesis

FAULTS = [
    ("number", "He has 3 dogs.", "Er hat vier Hunde."),
    ("number", "He has three dogs.", "Er hat vier Hunde."),
    ("number", "He has three dogs.", "Er hat Hunde."),
    ("number", "The train leaves at 3:30 pm.", "Der Zug fährt um 3:30 Uhr ab."),
    ("number", "It leaves at 8 am.", "Er fährt um 20 Uhr ab."),
    ("number", "We met at half past two.", "Wir trafen uns um halb zwei."),
    ("number", "It is -5 degrees.", "Es sind 5 Grad."),
    ("number", "It costs $50.", "Es kostet 50 €."),
    ("number", "It costs fifty dollars.", "Es kostet fünfzig."),
    ("number", "It is five miles away.", "Es ist fünf Kilometer entfernt."),
    ("number", "I waited for three hours.", "Ich habe drei Tage gewartet."),
    ("number", "A million people live here.", "Hier leben eine Milliarde Menschen."),
    ("number", "It costs 2 billion euros.", "Es kostet 2 Billionen Euro."),
    ("number", "Install version 2.0.1 first.", "Installieren Sie zuerst Version 2.1.0."),
    ("number", "He lives on Third Avenue.", "Er wohnt in der Vierten Straße."),
    ("number", "They live in 21 houses.", "Sie wohnen in zwölf Häusern."),
    ("tag", "%s has %d files.", "%d hat %s Dateien."),
    ("tag", "{count, plural, one {# file} other {# files}} found.", "Dateien gefunden."),
    ("tag", "It costs {price, number, currency} today.", "Es kostet heute {price, date, currency}."),
    ("url", "See https://example.org/en/help.", "Siehe https://example.org/fr/help."),
    ("copied", "We see the big red house.", "We see the big red house."),
]
GOOD = [
    ("Twenty people came.", "Es kamen 20 Leute."),
    ("It was popular in the 1990s.", "Es war in den 90er Jahren beliebt."),
    ("It was popular in the nineties.", "Es war in den neunziger Jahren beliebt."),
    ("They sold 1.5 million.", "Sie haben 1 500 000 verkauft."),
    ("They sold 1.5 million.", "Sie haben 1,5 Mio. verkauft."),
    ("They sold 2 billion.", "Sie haben zwei Milliarden verkauft."),
    ("We arrived at 12 am.", "Wir kamen um 0 Uhr an."),
    ("We arrived at midnight, at 12 am.", "Wir kamen um Mitternacht an, um 0 Uhr."),
    ("It leaves at 8 pm.", "Er fährt um 20 Uhr ab."),
    ("It leaves at 8 p.m.", "Er fährt um 8 Uhr abends ab."),
    ("We met at half past two.", "Wir trafen uns um 14:30 Uhr."),
    ("We met at 2:30.", "Wir trafen uns um halb drei."),
    ("He came at 12:30.", "Er kam um halb eins."),
    ("It is -5 degrees.", "Es sind 5 Grad unter null."),
    ("It is -5 degrees.", "Es sind minus fünf Grad."),
    ("It costs $50.", "Es kostet 50 Dollar."),
    ("It is ten miles away.", "Es ist 16 Kilometer entfernt."),
    ("She is twenty-three years old.", "Sie ist dreiundzwanzig Jahre alt."),
    ("It costs 10,000 dollars.", "Es kostet zehntausend Dollar."),
    ("It is at 10.30.", "Es ist um halb elf."),
    ("They love one another.", "Sie lieben einander."),
    ("On the one hand, I like it.", "Zum einen gefällt es mir."),
    ("A dog sees one cat.", "Ein Hund sieht eine Katze."),
    ("Pay attention!", "Gib acht!"),
    ("He came on December 3.", "Er kam am 3.12."),
    ("Both of them came twice.", "Die zwei kamen zweimal."),
    ("The two-year-old boy sleeps.", "Der zweijährige Junge schläft."),
    ("Open https://en.example.org/en/help?lang=en now.", "Öffnen Sie jetzt https://de.example.org/de/help?lang=de."),
    ("See www.example.org/en-us/.", "Siehe www.example.org/de-de/."),
    ("Next Segment <k0><k1>C</k1><k2>N</k2></k0>", "Nächstes Segment <k0><k1>C</k1><k2>N</k2></k0>"),
    ("See <u0>Practical Nashorn, Part 1</u0>.", "Siehe <u0>Practical Nashorn, Part 1</u0>."),
    ("run --script=<path> path/to/file.txt", "run --script=<Pfad> path/to/file.txt"),
    ("On macOS: <k0><k1>Command</k1><k2>U</k2></k0>", "Unter macOS: <k0><k1>Command</k1><k2>U</k2></k0>"),
    ("{count, plural, one {# file} other {# files}}", "{count, plural, one {# Datei} other {# Dateien}}"),
]
"""English and German."""


Flagged = Callable[[str, str, tuple[str, str]], tuple[str, ...]]


@pytest.fixture
def flagged(small_bundle: Model) -> Flagged:
    """The flags of a translation, from a translator with the languages of its model's card."""
    tokenizers, config = small_bundle.tokenizers, small_bundle.config

    def flags(src: str, tgt: str, languages: tuple[str, str]) -> tuple[str, ...]:
        def search(sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
            ids = tuple(tokenizers.tgt.encode(tgt))
            return [[Hypothesis(ids, (0.0,) * (len(ids) + 1), 0.0, 0.0, True)] for _ in sources]

        wide = replace(config, data=replace(config.data, max_tokens=1000))
        trained = Model(small_bundle.weights, tokenizers, wide, Card(*languages))
        (answer,) = Translator.from_models([trained], search=SimpleNamespace(search=search)).translate_detailed([src])
        assert answer.text == tgt
        return tuple(flag for flag in answer.flags if flag != "characters")

    return flags


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(("flag", "english", "german"), FAULTS)
def test_a_wrong_quantity_or_placeholder_is_flagged(
    flag: str, english: str, german: str, is_reversed: bool, flagged: Flagged
) -> None:
    order = -1 if is_reversed else 1
    src, tgt = (english, german)[::order]
    assert flag in flagged(src, tgt, ("en", "de")[::order])  # type: ignore[arg-type]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(("english", "german"), GOOD)
def test_a_quantity_in_another_form_is_not_flagged(
    english: str, german: str, is_reversed: bool, flagged: Flagged
) -> None:
    order = -1 if is_reversed else 1
    src, tgt = (english, german)[::order]
    assert flagged(src, tgt, ("en-US", "de-AT")[::order]) == ()  # type: ignore[arg-type]


def test_only_digits_are_compared_in_other_languages(flagged: Flagged) -> None:
    assert flagged("He has three dogs.", "Han har fyra hundar.", ("en", "sv")) == ()
    assert flagged("It was popular in the 1970s.", "Det var populärt på 1970-talet.", ("en", "sv")) == ()
    assert flagged("It costs 80 dollars.", "Es kostet 80.", ("", "")) == ()
    assert flagged("It costs 80 dollars.", "Det kostar 90 dollar.", ("en", "sv")) == ("number",)
