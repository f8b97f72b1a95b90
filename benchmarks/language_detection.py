"""Measures how often the language of a line, and of a side of a corpus, is detected correctly, and how fast.

    pip install Django lingua-language-detector heliport       # texts, and detectors to compare (both optional)
    python benchmarks/language_detection.py "$(python -c 'import django; print(*django.__path__)')" --out results

The texts are translated messages of software, from the .mo files below the given folders. No detector was trained on
those of Django. The first table compares detectors by line, each choosing among all languages that it supports. The
second table shows what `train` and `evaluate` rely on: samples whose language is stated correctly must not be refused,
and samples whose language is stated wrongly must be refused.
"""

import argparse
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from gettext import GNUTranslations
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from dragoman.languages import main_language
from dragoman.text.doctor.languages import are_similar, can_detect, contradiction, language_of_side

FEWEST_LINES, SAMPLES = 300, 5
LENGTHS = ((10, 19), (20, 39), (40, 79), (80, 1000))
PLACEHOLDER = re.compile(r"%\([^)]*\)\w|%\w|\{[^}]*\}|<[^>]*>|&\w+;|\s+")
SAME = {"nb": "no", "fil": "tl", "cmn": "zh"}
Detect = Callable[[str], str]


def texts_below(folders: list[Path]) -> dict[str, list[str]]:
    """Return the distinct messages of each language, without those that equal the English message."""
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for path in sorted(path for folder in folders for path in folder.rglob("LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            catalog = GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        for original, translation in catalog.items():
            text = PLACEHOLDER.sub(" ", translation).strip()
            english = original[0] if isinstance(original, tuple) else original
            if english and text != PLACEHOLDER.sub(" ", english).strip() and letters(text) >= LENGTHS[0][0]:
                texts[path.parent.parent.name.replace("_", "-").replace("@latin", "-Latn")][text] = None
    return {code: list(lines) for code, lines in sorted(texts.items()) if len(lines) >= FEWEST_LINES}


def letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def py3langid() -> Detect:
    module = import_module("py3langid.langid")
    identifier = module.LanguageIdentifier.from_model_file(module.MODEL_FILE)
    return lambda text: str(identifier.classify(text)[0])


def lingua() -> Detect:
    module = import_module("lingua")
    detector = module.LanguageDetectorBuilder.from_all_languages().build()

    def detect(text: str) -> str:
        found = detector.detect_language_of(text)
        return found.iso_code_639_1.name.lower() if found else ""

    return detect


def heliport() -> Detect:
    identifier = import_module("heliport").Identifier()
    return lambda text: str(identifier.identify(text))


def label(code: str) -> str:
    return SAME.get(main_language(code), main_language(code))


def by_line(texts: dict[str, list[str]]) -> Iterator[str]:
    yield f"| detector | load s | lines/s | {' | '.join(f'{low} to {high}' for low, high in LENGTHS)} |"
    yield "| --- | ---: | ---: |" + " ---: |" * len(LENGTHS)
    for name, load in (("py3langid", py3langid), ("lingua", lingua), ("heliport", heliport)):
        if not find_spec(name):
            continue
        start = time.perf_counter()
        detect = load()
        detect("Warm up, please.")
        loaded = time.perf_counter()
        right = {
            code: [(letters(line), label(detect(line)) == label(code)) for line in own] for code, own in texts.items()
        }
        seconds, lines = time.perf_counter() - loaded, sum(map(len, texts.values()))
        shares = []
        for low, high in LENGTHS:
            hits = [[hit for length, hit in own if low <= length <= high] for own in right.values()]
            means = [sum(own) / len(own) for own in hits if own]
            shares.append(f"{100 * sum(means) / len(means):.1f}")
        yield f"| {name} | {loaded - start:.1f} | {lines / seconds:,.0f} | {' | '.join(shares)} |"


def by_side(texts: dict[str, list[str]], rng: random.Random) -> Iterator[str]:
    yield "| lines sampled | stated rightly | refused | warned | stated wrongly | refused | other |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    known = [code for code in texts if can_detect(code)]
    for size in (20, 50, 200, 1000):
        refused = warned = 0
        for code in known * SAMPLES:
            found = contradiction(language_of_side(sample(texts[code], size, rng), code), code)
            refused += bool(found) and not are_similar(found, code)
            warned += bool(found) and are_similar(found, code)
        wrong = caught = 0
        for code, stated in product(known, known):
            if not are_similar(code, stated):
                found = contradiction(language_of_side(sample(texts[code], size, rng), stated), stated)
                wrong, caught = wrong + 1, caught + (bool(found) and not are_similar(found, stated))
        yield f"| {size} | {len(known) * SAMPLES} | {refused} | {warned} | {wrong} | {caught} | {wrong - caught} |"


def sample(lines: list[str], size: int, rng: random.Random) -> list[str]:
    return rng.sample(lines, min(size, len(lines)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="with LC_MESSAGES/*.mo somewhere below")
    parser.add_argument("--out", type=Path, help="folder for language_detection.md (default: print)")
    options = parser.parse_args()
    texts = texts_below(options.folders)
    lines = [
        f"{sum(map(len, texts.values())):,} lines in {len(texts)} languages. By line, % right by number of letters:"
    ]
    lines += ["", *by_line(texts), "", "By side, as `train` and `evaluate` judge it:", ""]
    lines += by_side(texts, random.Random(1))
    report = "\n".join(lines) + "\n"
    if options.out:
        (options.out / "language_detection.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
