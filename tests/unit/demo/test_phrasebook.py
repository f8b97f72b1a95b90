"""The phrasebook: its size, its German against tables and a dictionary, and its alignments."""

import itertools
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest
import tomli_w

from dragoman.demo import inflection
from dragoman.demo.inflection import CASES, Adjective, Noun, Verb, decline_adjective, decline_stem
from dragoman.demo.phrasebook import Pattern, Phrasebook, PhrasebookPair, split_words
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DataError

NAMES = Path(__file__).parents[2] / "data" / "phrasebook_names.txt"
DATA = tomllib.loads(resources.files("dragoman.demo").joinpath("phrasebook.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return load_phrasebook()


@pytest.fixture(scope="module")
def pairs(book: Phrasebook) -> list[PhrasebookPair]:
    return book.generate(1, 30_000)


# Size.


def test_there_are_100_patterns_400_words_and_20000_distinct_pairs(book: Phrasebook) -> None:
    assert len(book.grammar) >= 100
    assert len({entry for entries in book.lexicon.values() for entry in entries.values()}) >= 400
    assert count_distinct(book) >= 20_000


def count_distinct(book: Phrasebook) -> int:
    """The number of different pairs when every number, time, price and date counts as one value."""
    return sum(len(pattern.combinations) for pattern in book.grammar.values())


def test_no_english_sentence_has_two_translations_and_none_is_counted_twice(book: Phrasebook) -> None:
    seen: set[str] = set()
    for pattern in book.grammar.values():
        values = pattern.value_combinations[0]
        seen.update(pattern.render(combination, values).src for combination in pattern.combinations)
    assert len(seen) == count_distinct(book)


def test_no_value_makes_a_sentence_ambiguous(pairs: list[PhrasebookPair]) -> None:
    assert len({pair.src for pair in pairs}) == len(pairs)


def has_crossing(pair: PhrasebookPair) -> bool:
    """True if two links cross that are not in one block of words that are all aligned."""
    links = set(pair.alignment)
    return any(
        i < k and j > m and not ((i, m) in links and (k, j) in links)
        for (i, j), (k, m) in itertools.product(links, repeat=2)
    )


def test_word_order_changes_in_at_least_50_patterns(pairs: list[PhrasebookPair]) -> None:
    by_pattern: dict[str, list[bool]] = {}
    for pair in pairs[:5000]:
        by_pattern.setdefault(pair.pattern, []).append(has_crossing(pair))
    assert sum(all(crossings) for crossings in by_pattern.values()) >= 50


def test_sentences_are_neither_short_nor_long(pairs: list[PhrasebookPair]) -> None:
    assert {len(split_words(text)) for pair in pairs for text in (pair.src, pair.tgt)} <= set(range(4, 20))


def test_every_class_of_words_is_used(book: Phrasebook) -> None:
    used = {entry for p in book.grammar.values() for options in p.slots.values() for entry in options}
    for name, entries in book.lexicon.items():
        assert name == "basic" or used.issuperset(entries.values()), name


# Generation and splits.


def test_generation_depends_on_its_arguments_only(book: Phrasebook) -> None:
    again = load_phrasebook()
    assert book.generate(3, 500) == again.generate(3, 500) != book.generate(4, 500)
    assert book.split(3, 12_000, 100, 100) == again.split(3, 12_000, 100, 100)


def test_pairs_are_distinct_and_even_over_the_patterns(book: Phrasebook, pairs: list[PhrasebookPair]) -> None:
    assert len(set(pairs)) == len(pairs) == 30_000
    assert set(Counter(pair.pattern for pair in book.generate(0, 1000)).values()) == {10}


def test_a_split_holds_out_combinations_but_no_words(book: Phrasebook) -> None:
    split = book.split(seed=7, train_pairs=12_000, test_pairs=500)
    assert [len(split.train), len(split.dev), len(split.test)] == [12_000, 200, 500]
    assert Counter(pair.pattern for pair in split.test) == dict.fromkeys(book.grammar, 5)
    values = "|".join(value for kind in DATA["values"].values() for value in kind)
    mask = re.compile(rf"\d+([.:]\d+)?( [ap]m)?|\b({values})\b")
    trained = {mask.sub("#", pair.src) for pair in split.train}
    dev = {mask.sub("#", pair.src) for pair in split.dev}
    test = {mask.sub("#", pair.src) for pair in split.test}
    assert trained.isdisjoint(dev | test)
    assert dev.isdisjoint(test)
    seen = {word for pair in split.train for word in split_words(f"{pair.src} {pair.tgt}")}
    assert seen.issuperset(word for pair in split.dev + split.test for word in split_words(f"{pair.src} {pair.tgt}"))


def test_too_many_pairs_are_an_error(book: Phrasebook) -> None:
    with pytest.raises(DataError, match="Request fewer"):
        book.generate(0, 10**9)
    with pytest.raises(DataError, match="held-out pairs with known words"):
        book.split(0, 1000, 5000)


# Alignment.


def find(pattern: Pattern, src: str) -> PhrasebookPair:
    present = set(split_words(src))
    fitting = [
        v for v in pattern.value_combinations if all(token.text in present for phrase in v for token in phrase.en)
    ]
    for combination, values in itertools.product(pattern.combinations, fitting):
        if (pair := pattern.render(combination, values)).src == src:
            return pair
    raise AssertionError(src)


@pytest.mark.parametrize(
    ("pattern", "src", "tgt", "links"),
    [
        (
            "departs",
            "The night train to Munich leaves at 3:45 pm.",
            "Der Nachtzug nach München fährt um 15:45 Uhr ab.",
            "The-Der night-Nachtzug train-Nachtzug to-nach Munich-München leaves-fährt leaves-ab at-um 3:45-15:45 "
            "pm-Uhr .-.",
        ),
        (
            "can_walk",
            "Can I walk to the bank from here?",
            "Kann ich von hier zur Bank laufen?",
            "Can-Kann I-ich walk-laufen to-zur the-zur bank-Bank from-von here-hier ?-?",
        ),
        (
            "forgot_to",
            "My niece forgot to pick up the room key.",
            "Meine Nichte hat vergessen, den Zimmerschlüssel abzuholen.",
            "My-Meine niece-Nichte forgot-hat forgot-vergessen to-abzuholen pick-abzuholen up-abzuholen the-den "
            "room-Zimmerschlüssel key-Zimmerschlüssel .-.",
        ),
        (
            "too_small",
            "I bought this coat an hour ago, but it is too big.",
            "Ich habe diesen Mantel vor einer Stunde gekauft, aber er ist zu groß.",
            "I-Ich bought-habe bought-gekauft this-diesen coat-Mantel an-einer hour-Stunde ago-vor but-aber it-er "
            "is-ist too-zu big-groß .-.",
        ),
        (
            "belongs_to",
            "That is the student's dark blue bag.",
            "Das ist die dunkelblaue Tasche des Studenten.",
            "That-Das is-ist the-des student's-Studenten dark-dunkelblaue blue-dunkelblaue bag-Tasche .-.",
        ),
        (
            "reserved_period",
            "We have reserved a big suite from 3 to 9 May.",
            "Wir haben vom 3. bis zum 9. Mai eine große Suite reserviert.",
            "We-Wir have-haben reserved-reserviert a-eine big-große suite-Suite from-vom 3-3. to-bis to-zum 9-9. "
            "May-Mai .-.",
        ),
        (
            "need_speaker",
            "She needs an interpreter who speaks Polish.",
            "Sie braucht einen Dolmetscher, der Polnisch spricht.",
            "She-Sie needs-braucht an-einen interpreter-Dolmetscher who-der speaks-spricht Polish-Polnisch .-.",
        ),
    ],
)
def test_alignments_checked_by_hand(book: Phrasebook, pattern: str, src: str, tgt: str, links: str) -> None:
    pair = find(book.grammar[pattern], src)
    assert pair.tgt == tgt
    source, target = split_words(src), split_words(tgt)
    made = {f"{source[i]}-{target[j]}" for i, j in pair.alignment}
    assert made == set(links.split())


def test_alignments_are_valid_and_leave_out_function_words_only(pairs: list[PhrasebookPair]) -> None:
    unaligned: tuple[set[str], set[str]] = (set(), set())
    for pair in pairs:
        texts = (split_words(pair.src), split_words(pair.tgt))
        assert len(set(pair.alignment)) == len(pair.alignment)
        for side, text in enumerate(texts):
            assert "".join(text) == (pair.src, pair.tgt)[side].replace(" ", "")
            linked = {link[side] for link in pair.alignment}
            assert linked <= set(range(len(text)))
            unaligned[side].update(word for index, word in enumerate(text) if index not in linked)
    assert unaligned[0] <= {"to", "of", "for", "does", "do", "has", "been", "will", "is", "am", "are", ","}
    assert unaligned[1] <= {"Sie", "der", "die", "das", "dem", "den", ","}


# German against full tables, independent of the generator: rows are cases, columns are m f n p.

DETERMINERS = {
    "the": "der die das die/den die das die/dem der dem den/des der des der",
    "this": "dieser diese dieses diese/diesen diese dieses diese/diesem dieser diesem diesen/"
    "dieses dieser dieses dieser",
    "which": "welcher welche welches welche/welchen welche welches welche/welchem welcher welchem welchen/"
    "welches welcher welches welcher",
    "a": "ein eine ein -/einen eine ein -/einem einer einem -/eines einer eines -",
    "no": "kein keine kein keine/keinen keine kein keine/keinem keiner keinem keinen/keines keiner keines keiner",
    "my": "mein meine mein meine/meinen meine mein meine/meinem meiner meinem meinen/meines meiner meines meiner",
    "our": "unser unsere unser unsere/unseren unsere unser unsere/unserem unserer unserem unseren/"
    "unseres unserer unseres unserer",
    "your": "Ihr Ihre Ihr Ihre/Ihren Ihre Ihr Ihre/Ihrem Ihrer Ihrem Ihren/Ihres Ihrer Ihres Ihrer",
}
ADJECTIVES = {
    "weak": "rote rote rote roten/roten rote rote roten/roten roten roten roten/roten roten roten roten",
    "mixed": "roter rote rotes roten/roten rote rotes roten/roten roten roten roten/roten roten roten roten",
    "strong": "roter rote rotes rote/roten rote rotes rote/rotem roter rotem roten/roten roter roten roter",
}
KINDS = {"the": "weak", "this": "weak", "which": "weak", "": "strong"}  # mixed after all others


def cell(table: str, case: str, gender: str) -> str:
    text = table.split("/")[CASES.index(case)].split()["mfnp".index(gender)]
    return "" if text == "-" else text


@pytest.mark.parametrize(("case", "gender"), list(itertools.product(CASES, "mfnp")))
def test_every_ending_is_as_in_the_full_table(case: str, gender: str) -> None:
    for name, table in DETERMINERS.items():
        assert decline_stem(*inflection.DETERMINERS[name][2:], case, gender) == cell(table, case, gender)
    for kind, table in ADJECTIVES.items():
        expected = cell(table, case, gender)
        assert decline_adjective("rot", kind, case, gender) == expected
        assert decline_adjective("teuer", kind, case, gender) == expected.replace("rot", "teur")
        assert decline_adjective("dunkel", kind, case, gender) == expected.replace("rot", "dunkl")


def test_every_noun_with_every_determiner_is_declined_as_in_the_tables(tmp_path: Path) -> None:
    """The built-in words, with patterns that need each determiner, case and number of each noun."""
    plain = {**DATA, "adjectives": {**DATA["adjectives"], "colour": {"red": "rot"}}, "patterns": {}}
    countable = [name for name, nouns in DATA["nouns"].items() if all(", die " in de for de in nouns.values())]
    plain["groups"] = {**DATA["groups"], "anything": list(DATA["nouns"]), "countable": countable}
    for name, case in itertools.product([*DETERMINERS, ""], CASES):
        for slot in ("anything", "countable+"):
            noun_phrase = f"{name} colour {slot}".strip()
            key = f"{name or 'none'}-{case}-{slot[-1]}"
            plain["patterns"][key] = {"en": f"{{{noun_phrase}}}.", "de": f"{{{noun_phrase} {case}}}."}
    file = tmp_path / "nouns.toml"
    file.write_text(tomli_w.dumps(plain), encoding="utf-8")
    count = 0
    for key, pattern in load_phrasebook(file).grammar.items():
        name, case, ending = key.split("-")
        name = "" if name == "none" else name
        for combination in pattern.combinations:
            noun = next(entry for entry in combination if isinstance(entry, Noun))
            gender = "p" if ending == "+" else noun.gender
            determiner = cell(DETERMINERS[name], case, gender) if name else ""
            kind = KINDS.get(name if determiner else "", "mixed")
            expected = [
                determiner,
                cell(ADJECTIVES[kind], case, gender),
                noun.german(case, "p" if gender == "p" else "3"),
            ]
            sentence = pattern.render(combination, ()).tgt
            text = " ".join(filter(None, expected)) + "."
            assert sentence == text[0].upper() + text[1:]
            count += 1
    assert count > 10_000


WEAK = "Chirurg Fotograf Junge Kollege Neffe Orthopäde Polizist Student Tourist"


def test_nouns_are_declined_as_in_a_grammar_book(book: Phrasebook) -> None:
    nouns = {e for entries in book.lexicon.values() for e in entries.values() if isinstance(e, Noun)}
    weak = {noun.nominative for noun in nouns if noun.gender != "f" and not noun.genitive.endswith("s")}
    assert weak == set(WEAK.split())
    for noun in nouns:
        forms = [noun.german(case, "3") for case in CASES]
        if noun.gender == "f":
            assert set(forms) == {noun.nominative}
        elif noun.nominative in weak:
            assert set(forms[1:]) == {noun.nominative.removesuffix("e") + "en"}
        else:
            assert set(forms[:3]) == {noun.nominative}
            assert forms[3] in {noun.nominative + "s", noun.nominative + "es", noun.nominative + "ses"}
        if noun.plural:
            assert noun.german("dat", "p") in {noun.plural, noun.plural + "n"}
            assert noun.german("dat", "p")[-1] in "ns"
            assert noun.german("nom", "p") == noun.german("acc", "p") == noun.german("gen", "p") == noun.plural


def test_prepositions_take_their_case() -> None:
    governed = dict.fromkeys("mit bei nach von zu aus seit vor".split(), "dat") | dict.fromkeys(
        "für ohne durch gegen".split(), "acc"
    )
    checked = 0
    for name, pattern in DATA["patterns"].items():
        for preposition, case in re.findall(r"(\w+?)(?:_\d+)* \{[^}]* (nom|acc|dat|gen)\}", pattern["de"]):
            if preposition.lower() in governed:
                assert governed[preposition.lower()] == case, name
                checked += 1
    assert checked >= 15


def german_forms(book: Phrasebook) -> set[str]:
    """Every form of every German word in the lexicon."""
    forms: set[str] = set()
    for entry in {entry for entries in book.lexicon.values() for entry in entries.values()}:
        if isinstance(entry, Noun):
            numbers = ("3", "p") if entry.plural else ("3",)
            forms.update(entry.german(case, number) for case in CASES for number in numbers)
        elif isinstance(entry, Adjective):
            cells = itertools.product(entry.de, ("weak", "mixed", "strong"), CASES, "mfnp")
            forms.update(decline_adjective(*each) for each in cells)
        elif isinstance(entry, Verb):
            forms.update(w for form in ("inf", "zu", "part", "aux") for w in entry.german(form, "3").split())
            forms.update(entry.german("fin", agreement) for agreement in "13p")
            forms.update(entry.german("last", agreement) for agreement in "13p")
    return forms


def misspelt(dictionary: str, vocabulary: set[str]) -> set[str]:
    if not shutil.which("hunspell"):
        pytest.skip("hunspell is not installed (Debian: apt-get install hunspell hunspell-de-de hunspell-en-us)")
    command = ["hunspell", "-d", dictionary, "-i", "utf-8", "-l"]
    run = subprocess.run(command, input="\n".join(sorted(vocabulary)), capture_output=True, text=True, check=False)
    if run.returncode or "open" in run.stderr:
        pytest.skip(f"hunspell's dictionary {dictionary} is not installed ({run.stderr.strip()[:80]})")
    return set(run.stdout.split())


def test_hunspell_knows_every_german_word(book: Phrasebook, pairs: list[PhrasebookPair]) -> None:
    vocabulary = german_forms(book) | {word for pair in pairs for word in split_words(pair.tgt) if word[0].isalpha()}
    assert len(vocabulary) > 1000
    assert misspelt("de_DE", vocabulary) - set(NAMES.read_text(encoding="utf-8").split()) == set()


def test_hunspell_knows_every_english_word(pairs: list[PhrasebookPair]) -> None:
    vocabulary = {word for pair in pairs for word in split_words(pair.src) if word[0].isalpha()}
    assert misspelt("en_US", vocabulary) - set(NAMES.read_text(encoding="utf-8").split()) == set()


# The file.


@pytest.mark.parametrize(
    ("table", "key", "value", "message"),
    [
        (
            "nouns.sight",
            "abbey",
            "Abtei",
            r"`abbey` in `nouns.sight`: cannot read \"Abtei\": a noun must be written like",
        ),
        ("nouns.sight", "abbey", "das Kloster, die Klöster", r"`abbey` in `nouns.sight`"),
        ("adjectives.size", "tiny", "winzig", r"`patterns\.\w+`: `tiny` has no degrees"),
        ("verbs.coming", "arrive", "ankommen", r"`arrive` in `verbs.coming`"),
        ("patterns.late", "de", "Nein.", r"`patterns.late`: marker `1` must be on both sides"),
        (
            "patterns.late",
            "de",
            "{the lines nom}.",
            r"`patterns.late`: `lines` in {the lines nom} must be a class of words or a verb",
        ),
        (
            "patterns.kilo",
            "de",
            "Ein_1 Kilo_2 {produce fruit+ nom} kostet_3.",
            r"slot `lowprice` must be on both sides",
        ),
        ("patterns.kilo", "de", "Ein_1 Kilo_2 {produce fruit+} kostet_3 {lowprice}.", r"`apple` needs a case"),
        ("patterns.kilo", "de", "Ein_1 Kilo_2", r"`patterns.kilo`: a sentence must end with"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, table: str, key: str, value: str, message: str) -> None:
    kind, name = table.split(".")
    data = {**DATA, kind: {**DATA[kind], name: {**DATA[kind][name], key: value}}}
    file = tmp_path / "mine.toml"
    file.write_text(tomli_w.dumps(data), encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        load_phrasebook(file)
    assert str(file) in str(caught.value)


def test_errors_name_a_file_that_is_not_a_phrasebook(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.toml"):
        load_phrasebook(tmp_path / "missing.toml")
    (tmp_path / "other.toml").write_text("[data]\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"other\.toml: `nouns` is missing"):
        load_phrasebook(tmp_path / "other.toml")


def test_words_are_split_as_documented() -> None:
    text = "Am 3. Mai kostet die U-Bahn 12,50 Euro, nicht 3."
    assert split_words(text) == ["Am", "3.", "Mai", "kostet", "die", "U-Bahn", "12,50", "Euro", ",", "nicht", "3", "."]
    assert split_words("The driver's train leaves at 3:45 pm.") == "The driver's train leaves at 3:45 pm .".split()
