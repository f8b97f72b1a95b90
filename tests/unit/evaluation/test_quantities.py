"""Numbers in words. The words come from this file, as an independent speller of English and German."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.evaluation.quantities import Quantities, quantities_differ

ENGLISH = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
GERMAN = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
ONES = {
    "en": ["", *ENGLISH.split(), "eighteen", "nineteen"],
    "de": ["", *GERMAN.split(), "achtzehn", "neunzehn"],
}
TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety".split(),
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(),
}


def english(number: int) -> str:
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = english(number % size)
            link = " and " if size == 100 and rest else " "
            return f"{english(number // size)} {name}{link}{rest}".strip()
    if number < 20:
        return ONES["en"][number]
    return f"{TENS['en'][number // 10 - 2]}-{ONES['en'][number % 10]}".strip("-")


def german(number: int) -> str:
    for size, name in ((10**9, "Milliarden"), (10**6, "Millionen")):
        if number >= size:
            return f"{german(number // size)} {name} {german(number % size)}".strip()
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if number >= size:
            return f"{german(number // size)}{name}{german(number % size)}"
    if number < 20:
        return ONES["de"][number]
    return f"{ONES['de'][number % 10]}{'und' if number % 10 else ''}{TENS['de'][number // 10 - 2]}"


@settings(deadline=None)
@given(st.integers(2, 10**12 - 1), st.integers(2, 10**12 - 1))
def test_spelled_numbers_equal_their_digits(number: int, other: int) -> None:
    def differ(en: int, de: int, english_form: str, german_form: str) -> bool:
        texts = f"There are {english_form} apples here.", f"Es gibt hier {german_form} Äpfel."
        answer = quantities_differ(*texts, ("en", "de"))
        assert answer == quantities_differ(*texts[::-1], ("de", "en"))
        return answer

    german_digits = f"{number:,}".replace(",", ".")
    for english_form in (english(number), f"{number:,}", str(number)):
        for german_form in (
            german(number),
            german(number).capitalize(),
            german_digits,
            f"{number:,}".replace(",", "\u202f"),
        ):
            assert not differ(number, number, english_form, german_form)
    is_am_or_pm = abs(number - other) == 12 and min(number, other) < 12
    if number != other and not is_am_or_pm and 8 not in (number, other):  # Acht geben is no number
        assert differ(number, other, english(number), german(other))
        assert differ(number, other, str(number), german(other))


@given(st.text("0123456789.,:-%$€ apmuhrzweiundeinhundertmillionenone'", max_size=80))
def test_a_text_has_the_quantities_of_itself(text: str) -> None:
    for language in ("en", "de", "sv"):
        assert not quantities_differ(text, text, (language, language))


def test_long_words_and_digits_are_read() -> None:
    long = "9" * 5000
    assert Quantities(f"hundert{'hundert' * 5000} {long} {'1.' * 5000}", "de").certain
    assert not quantities_differ(f"{long} miles and 1.5 million", f"{long} Meilen und 1,5 Mio.", ("en", "de"))
