"""What terms cost, and what they do to a translation, on Multi30k's test set (English to German).

A sentence's term is a word of it and what the reference has for that, by IBM model 1 (benchmarks/survival.py): seldom
what the model writes by itself. *Written* counts the sentences whose term is in the output as a whole word. chrF to
the references rises with terms that fit where they are put. Times are the processor's, of one thread, in alternating
rounds.

    python benchmarks/terms.py runs/multi30k
"""

import argparse
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from sacrebleu.metrics import BLEU, CHRF
from survival import SEED, WORD, dictionary, read

from dragoman.inference.translator import Translator
from dragoman.text.documents.terms import Term, Terms, occurrences


@dataclass(frozen=True)
class OwnTerms(Terms):
    """Each sentence has its own."""

    own: dict[str, list[Term]] = field(default_factory=dict)

    def found_in(self, text: str) -> list[Term]:
        return self.own.get(text, [])


def made_terms(split: str, likely: float) -> tuple[list[str], list[str], OwnTerms]:
    """Sentences, references and terms: words that the reference translates in a way of at most so much probability."""
    known = dictionary(read("train.en"), read("train.de"))
    rng = random.Random(SEED)
    sentences: list[str] = []
    references: list[str] = []
    own: dict[str, list[Term]] = {}
    for src, ref in zip(read(f"{split}.en"), read(f"{split}.de"), strict=True):
        choices = []
        theirs = {word.lower(): word for word in WORD.findall(ref) if len(word) > 3}
        for match in WORD.finditer(src):
            for word, probability in known.get(match.group().lower(), {}).items():
                if word in theirs and probability <= likely and len(match.group()) > 3:
                    choices.append(Term(match.start(), match.end(), theirs[word]))
        if choices and src not in own:
            sentences.append(src)
            references.append(ref)
            own[src] = [rng.choice(choices)]
    return sentences, references, OwnTerms((), own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--split", default="test_2016_flickr")
    options = parser.parse_args()
    translator = Translator.load(options.model, "cpu")
    print("| terms | sentences | way | written | chrF | BLEU | seconds | times |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, likely in (("likely ones", 1.0), ("unlikely ones", 0.4)):
        sentences, references, terms = made_terms(options.split, likely)
        translator.translate(sentences[:20], terms=terms)
        seconds: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(options.rounds):
            for way, given in (("without", None), ("with", terms)):
                start = time.process_time()
                outputs = translator.translate(sentences, terms=given)
                seconds[way].append(time.process_time() - start)
                if len(seconds[way]) == options.rounds:
                    written = sum(
                        bool(occurrences(terms.own[text][0].target, output))
                        for text, output in zip(sentences, outputs, strict=True)
                    )
                    chrf = CHRF().corpus_score(outputs, [references]).score
                    bleu = BLEU().corpus_score(outputs, [references]).score
                    took, times = median(seconds[way]), median(seconds[way]) / median(seconds["without"])
                    row = f"{written / len(outputs):.1%} | {chrf:.1f} | {bleu:.1f} | {took:.1f} | {times:.2f} |"
                    print(f"| {name} | {len(outputs)} | {way} | {row}")


if __name__ == "__main__":
    main()
