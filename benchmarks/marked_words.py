"""Counts marked words that are still marked in a translation, with links from attention and from a lexicon.

    export DRAGOMAN_DATA=...                                    the folder that holds multi30k/ and tatoeba_en_de/
    python benchmarks/marked_words.py                           the demo model of the package
    python benchmarks/marked_words.py --model runs/other --show   also list the failures

500 sentences of Tatoeba and 500 of Multi30k, of 4 to 25 words, are translated from English to German. In each, one word
of `marked_words.tsv` is marked: <b>red</b>. No word is marked more than 12 times in a text. A sentence counts if the
output has one of the translations that the list names. The word is in place if the <b> of the output holds such a
translation, and at most 2 words. A model without a lexicon gets one from the pairs of Tatoeba.
"""

import argparse
import html
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from alignment import learn
from quality import columns, multi30k
from recording import read_lines

from dragoman.bundle import Model, resolve_model_folder
from dragoman.inference.preservation import translate_html
from dragoman.inference.translator import Translator

SENTENCES, PER_WORD, MAX_MARKED_WORDS, SEED = 500, 12, 2, 1
MIN_WORDS, MAX_WORDS = 4, 25
Translations = dict[str, list[str]]
"""Listed English words, and the beginnings of their translations in lower case."""


class Marked(NamedTuple):
    """A sentence and the word that is marked in it."""

    sentence: str
    word: str

    def as_html(self) -> str:
        marked = re.sub(rf"\b({self.word})\b", r"<b>\1</b>", html.escape(self.sentence, quote=False))
        return f"<p>{marked}</p>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="a model from English to German (demo)")
    parser.add_argument("--show", action="store_true", help="list the words that are not in place")
    given = parser.parse_args()
    data, words = Path(os.environ["DRAGOMAN_DATA"]), translations()
    tatoeba = columns(data / "tatoeba_en_de" / "deu.txt.gz")
    texts = {"Tatoeba": tatoeba, "Multi30k": multi30k(data, "en", "de")["train"]}
    samples = {name: choose((src for src, _ in pairs), words) for name, pairs in texts.items()}
    model = Model.load(resolve_model_folder(given.model), "cpu")
    name = f"the lexicon of {given.model}" if model.lexicon_file else f"a lexicon of {len(tatoeba):,} pairs of Tatoeba"
    file = model.lexicon_file or learn(model.tokenizers, tatoeba).to_bytes()
    print("| links from | text | counted | in place | share |\n|---|---|---:|---:|---:|")
    failures: dict[str, list[str]] = {}
    for links, content in (("attention", b""), (name, file)):
        translator = Translator.from_models([replace(model, lexicon_file=content)])
        for text, sample in samples.items():
            outputs = translate_html(translator, "\n".join(one.as_html() for one in sample)).split("\n")
            counted = [
                (one, output) for one, output in zip(sample, outputs, strict=True) if is_counted(one, output, words)
            ]
            wrong = [(one, output) for one, output in counted if not is_in_place(one, output, words)]
            right = len(counted) - len(wrong)
            print(f"| {links} | {text} | {len(counted)} | {right} | {right / len(counted):.3f} |", flush=True)
            failures.setdefault(links, []).extend(f"{one.as_html()}\t{output}" for one, output in wrong)
    for links, rows in failures.items():
        if given.show:
            print(f"\nNot in place, links from {links}:", *rows, sep="\n")


def translations() -> Translations:
    rows = (line.split("\t") for line in read_lines(Path(__file__).with_name("marked_words.tsv")))
    return {word: stems.split() for word, stems in rows}


def choose(sentences: Iterable[str], words: Translations) -> Sequence[Marked]:
    """Choose sentences and words at random. The word occurs once in the sentence."""
    rng = Random(SEED)
    shuffled = sorted(set(sentences))
    rng.shuffle(shuffled)
    chosen: list[Marked] = []
    used: Counter[str] = Counter()
    for sentence in shuffled:
        if MIN_WORDS <= len(sentence.split()) <= MAX_WORDS and len(chosen) < SENTENCES:
            found = Counter(re.findall(r"\w+", sentence))
            candidates = [word for word in words if found[word] == 1 and used[word] < PER_WORD]
            if candidates:
                chosen.append(Marked(sentence, rng.choice(candidates)))
                used[chosen[-1].word] += 1
    return chosen


def is_counted(marked: Marked, output: str, words: Translations) -> bool:
    return holds(html.unescape(re.sub("<[^>]*>", "", output)), words[marked.word])


def is_in_place(marked: Marked, output: str, words: Translations) -> bool:
    found = "".join(re.findall("<b>(.*?)</b>", output))
    return holds(html.unescape(found), words[marked.word]) and len(found.split()) <= MAX_MARKED_WORDS


def holds(text: str, stems: Sequence[str]) -> bool:
    return any(stem in text.lower() for stem in stems)


if __name__ == "__main__":
    main()
