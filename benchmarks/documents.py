"""Measures documents: bold phrases that stay bold, and what a document takes beside its text.

    dragoman demo --out runs/demo
    python benchmarks/documents.py --model runs/demo             a model of the phrasebook, from English to German
    python benchmarks/documents.py --model runs/demo --show      also list the phrases that are not in place

500 Word files, made with python-docx, have one paragraph of five sentences that training did not see. One phrase of
each sentence is bold: a word, with those that the grammar links to the same words of the translation, such as
"express train" for "Schnellzug". A phrase counts if its words and those of its translation are neighbors, and if the
sentence is translated as in the phrasebook. "In place": a word of its translation is bold, and no more words than its
translation has, or two. "Exactly": its translation is bold and nothing else.

The second table is about a document of 300 pages with 8 paragraphs a page, three words of each bold, and the same text
as a list of lines in memory, both translated sentence by sentence. They take turns. Seconds are medians, and the ratio
is the median of the ratios within a round. Reading and writing are parts of the document's time. Peak memory is that of
a separate process.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from random import Random
from statistics import median
from typing import NamedTuple

import docx
from docx.document import Document
from recording import peak_bytes

from dragoman.demo.phrasebook import PhrasebookPair, split_words
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.records import Preserve
from dragoman.text.documents.document import read_document
from dragoman.workflows.bilingual import Review
from dragoman.workflows.documents import translate_segments
from dragoman.workflows.models import LoadedTranslator, ModelRequest, load_model

DOCUMENTS, SENTENCES, SEED = 500, 5, 1
PAGES, PARAGRAPHS, BOLD = 300, 8, slice(3, 6)
PRESERVE = Preserve(by_sentence=True)


class Phrase(NamedTuple):
    """A phrase that was bold, by the numbers of its words, of those of its translation, and of those that are bold."""

    pair: PhrasebookPair
    src: set[int]
    tgt: set[int]
    bold: set[int]

    def is_in_place(self) -> bool:
        return bool(self.bold & self.tgt) and len(self.bold) <= max(2, len(self.tgt))

    def is_exact(self) -> bool:
        return self.bold == self.tgt

    def line(self) -> str:
        texts = (self.pair.src, self.src), (self.pair.tgt, self.tgt), (self.pair.tgt, self.bold)
        return f"{self.pair.src} | " + " | ".join(
            " ".join(split_words(text)[number] for number in sorted(numbers)) for text, numbers in texts
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="a model from English to German (demo)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--show", action="store_true", help="list the phrases that are not in place")
    parser.add_argument("--inside", choices=("document", "text"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    model = load_model(ModelRequest((given.model,), device="cpu"))
    texts = [" ".join(pair.src for pair in pairs) for pairs in draw(PAGES * PARAGRAPHS)]
    if given.inside:
        seconds(given.inside, model, texts)
        print(peak_bytes() >> 20)
        return
    print("| documents | phrases that count | in place | exactly | share in place |\n|---:|---:|---:|---:|---:|")
    found = [phrase for number, pairs in enumerate(draw(DOCUMENTS)) for phrase in phrases(model, pairs, Random(number))]
    num_in_place, exactly = (sum(map(judge, found)) for judge in (Phrase.is_in_place, Phrase.is_exact))
    share = num_in_place / len(found)
    print(f"| {DOCUMENTS} | {len(found):,} | {num_in_place:,} | {exactly:,} | {share:.3f} |", flush=True)
    rounds = [[seconds(kind, model, texts) for kind in ("text", "document")] for _ in range(given.rounds)]
    print("\n| translated | seconds | ratio | peak memory, MB |\n|---|---:|---:|---:|")
    for place, kind in enumerate(("text", "document")):
        ratio = median(each[place] / each[0] for each in rounds)
        print(f"| {kind} | {median(each[place] for each in rounds):.1f} | {ratio:.2f} | {peak(kind, given.model)} |")
    if given.show:
        print("\nNot in place:", *(one.line() for one in found if not one.is_in_place()), sep="\n")


def draw(documents: int) -> list[list[PhrasebookPair]]:
    """Draw the sentences of documents, which differ from the training pairs of `dragoman demo`."""
    book = load_phrasebook()
    known = {pair.src for pair in book.split(SEED, 30_000, 500).train}
    pairs = [pair for pair in book.generate(SEED + 1, 40_000) if pair.src not in known]
    return [pairs[start : start + SENTENCES] for start in range(0, documents * SENTENCES, SENTENCES)]


def phrases(model: LoadedTranslator, pairs: Sequence[PhrasebookPair], rng: Random) -> Iterator[Phrase]:
    """Translate a document with a bold phrase in each sentence."""
    file, marked = docx.Document(), [choose(pair, rng) for pair in pairs]
    paragraph = file.add_paragraph()
    for pair, (src, _) in zip(pairs, marked, strict=True):
        places = spans(pair.src)
        start, stop = places[min(src)][0], places[max(src)][1]
        paragraph.add_run(pair.src[:start])
        paragraph.add_run(pair.src[start:stop]).bold = True
        paragraph.add_run(pair.src[stop:] + " ")
    runs = docx.Document(BytesIO(translate(model, content_of(file)))).paragraphs[0].runs
    text, bold = "".join(run.text for run in runs), [bool(run.bold) for run in runs for _ in run.text]
    for pair, (src, tgt) in zip(pairs, marked, strict=True):
        at = text.find(pair.tgt)
        if at >= 0 and are_neighbors(src) and are_neighbors(tgt):
            words = spans(pair.tgt)
            seen = {number for number, span in enumerate(words) if all(bold[at + span[0] : at + span[1]])}
            yield Phrase(pair, src, tgt, seen)


def choose(pair: PhrasebookPair, rng: Random) -> tuple[set[int], set[int]]:
    """Choose a phrase: the smallest one with a translation of its own that holds a certain word with letters."""
    src = {rng.choice([number for number, word in enumerate(split_words(pair.src)) if word[0].isalpha()])}
    while True:
        tgt = {other for one, other in pair.alignment if one in src}
        linked = src | {one for one, other in pair.alignment if other in tgt}
        if linked == src:
            return src, tgt
        src = linked


def are_neighbors(numbers: set[int]) -> bool:
    return bool(numbers) and max(numbers) - min(numbers) < len(numbers)


def spans(text: str) -> list[tuple[int, int]]:
    """The characters of each word."""
    found, place = list[tuple[int, int]](), 0
    for word in split_words(text):
        start = text.index(word, place)
        place = start + len(word)
        found.append((start, place))
    return found


def content_of(file: Document) -> bytes:
    written = BytesIO()
    file.save(written)
    return written.getvalue()


def translate(model: LoadedTranslator, content: bytes) -> bytes:
    return translate_segments(read_document(content, "document", "docx"), model, PRESERVE, Review())


def seconds(kind: str, model: LoadedTranslator, texts: Sequence[str]) -> float:
    """The time of translating paragraphs, in a document or as texts."""
    file = docx.Document()
    for text in texts if kind == "document" else ():
        words = text.split(" ")
        paragraph = file.add_paragraph(" ".join(words[: BOLD.start]) + " ")
        paragraph.add_run(" ".join(words[BOLD])).bold = True
        paragraph.add_run(" " + " ".join(words[BOLD.stop :]))
    content = content_of(file)
    start = time.perf_counter()
    if kind == "document":
        translate(model, content)
    else:
        model.translator.translate(texts, protect=True, by_sentence=True)
    return time.perf_counter() - start


def peak(kind: str, model: str) -> str:
    command = [sys.executable, __file__, "--model", model, "--inside", kind]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
