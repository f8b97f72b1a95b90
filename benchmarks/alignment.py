"""Measures word alignments on the phrasebook, whose grammar knows all links.

    dragoman demo --out runs/demo
    python benchmarks/alignment.py runs/demo                    attention, lexicon and both
    python benchmarks/alignment.py runs/demo --layers           also other layers and readings of attention

The model with 6 decoder layers:

    dragoman train --data runs/demo-corpus/train.en-de.tsv --data.dev runs/demo-corpus/dev.en-de.tsv \\
        --tokenizer.vocab-size 2000 --model.preset tiny --model.num-encoder-layers 3 --model.num-decoder-layers 6 \\
        --model.d-ff 512 --model.dropout 0.1 --train.batch-tokens 2048 --train.learning-rate 0.003 \\
        --train.warmup-steps 400 --train.max-minutes 16 --train.patience 0 --validate.every-epochs 2 --out runs/deep

The aligners read 500 test pairs and 200 validation pairs, with the reference as the translation. They use the model's
attention, its lexicon, or both: link counts times the square root of attention. A model without a lexicon gets one from
the 30,000 training pairs. A second table shows how many training pairs a lexicon needs.

The alignment error rate is that of Och and Ney 2003 (https://aclanthology.org/J03-1002). All links of the grammar are
sure. Intervals come from 1,000 bootstrap samples of the test pairs.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Model, Weights, resolve_model_folder
from dragoman.config import ModelSettings
from dragoman.demo.phrasebook import PhrasebookPair, PhrasebookSplit, split_words
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.engines.interface import IdPair
from dragoman.inference.alignment import DEFAULT_READING, Aligner, Reading, alignment_layer
from dragoman.text.lexicon import Lexicon, learn_lexicon
from dragoman.text.tokenization.encoding import BatchEncoder
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.text.tokenization.words import Word, words_of

SAMPLES, SEED = 1000, 1
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
READINGS: tuple[Reading, Reading] = ("prediction", "next")
Links = set[tuple[int, int]]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Counts = Ints
"""The numbers of links found, of sure links, and of found links that are sure and possible, (pairs, 4)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="models trained on the phrasebook")
    parser.add_argument("--layers", action="store_true", help="read attention at every layer and step")
    given = parser.parse_args()
    models = [Model.load(resolve_model_folder(path), "cpu") for path in given.models]
    split = load_phrasebook().split(SEED, 30_000, 500)
    print("| decoder layers | links from | AER, validation | AER, test | 95% interval |\n|---:|---|---:|---:|---|")
    for model in models:
        layers, text = model.config.model.num_decoder_layers, [(pair.src, pair.tgt) for pair in split.train]
        lexicon = model.lexicon or learn(model.tokenizers, text)
        aligners = {
            "attention": Aligner([model.weights], model.tokenizers),
            "lexicon": with_lexicon(model.tokenizers, lexicon),
            "both": BothAligner(model, lexicon),
        }
        others = ((layer, reading) for layer in range(layers) for reading in READINGS if given.layers)
        for layer, reading in others:
            if (layer, reading) != (alignment_layer(layers), DEFAULT_READING):
                aligner = Aligner([model.weights], model.tokenizers, reading, layer)
                aligners[f"attention, layer {layer + 1}, {reading}"] = aligner
        for name, aligner in aligners.items():
            print(f"| {layers} | {name} | {phrasebook_row(aligner, model.tokenizers, split)} |", flush=True)
    tokenizers = models[0].tokenizers
    print("\n| training pairs of the lexicon | AER, validation | AER, test | 95% interval |\n|---:|---:|---:|---|")
    for size in SIZES:
        lexicon = learn(tokenizers, [(pair.src, pair.tgt) for pair in split.train[:size]])
        print(f"| {size:,} | {phrasebook_row(with_lexicon(tokenizers, lexicon), tokenizers, split)} |", flush=True)


def learn(tokenizers: TokenizerPair, text: Sequence[tuple[str, str]]) -> Lexicon:
    """Learn a lexicon from sentence pairs."""
    src = BatchEncoder(tokenizers.src).encode([pair[0] for pair in text])
    tgt = BatchEncoder(tokenizers.tgt).encode([pair[1] for pair in text])
    return learn_lexicon(src, tgt, (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size))


def with_lexicon(tokenizers: TokenizerPair, lexicon: Lexicon) -> Aligner:
    """An aligner that needs no weights."""
    return Aligner([Weights(ModelSettings(), {})], tokenizers, lexicon=lambda: lexicon)


@dataclass(frozen=True)
class PriorLexicon(Lexicon):
    """A lexicon for one pair. `prior` multiplies the counts of its tokens."""

    prior: Floats

    def agreed(self, counts: Floats, src: Ints, tgt: Ints) -> Floats:
        return super().agreed(counts * self.prior, src, tgt)


class BothAligner(Aligner):
    """Aligns by a lexicon, with the square root of attention as a prior."""

    def __init__(self, model: Model, lexicon: Lexicon) -> None:
        super().__init__([model.weights], model.tokenizers, lexicon=lambda: lexicon)
        self._attention, self._plain = Aligner([model.weights], model.tokenizers), lexicon

    def weights(self, pairs: Sequence[IdPair]) -> list[Floats]:
        found, plain = [], self._plain
        for pair, attention in zip(pairs, self._attention.weights(pairs), strict=True):
            prior = np.sqrt(np.maximum(attention.T, np.float32(1e-6)))
            self._lexicon = PriorLexicon(plain.entries, plain.counts, plain.src_alone, plain.tgt_alone, prior)
            found += super().weights([pair])
        return found


def phrasebook_row(aligner: Aligner, tokenizers: TokenizerPair, split: PhrasebookSplit) -> str:
    dev, test = (phrasebook_counts(aligner, tokenizers, pairs) for pairs in (split.dev, split.test))
    return f"{error_rate(dev):.3f} | {error_rate(test):.3f} | {interval(test)}"


def phrasebook_counts(aligner: Aligner, tokenizers: TokenizerPair, pairs: Sequence[PhrasebookPair]) -> Counts:
    ids = [(tokenizers.src.encode(pair.src), tokenizers.tgt.encode(pair.tgt)) for pair in pairs]
    found = []
    for pair, (src, tgt), links in zip(pairs, ids, aligner.links(ids), strict=True):
        src_words = words_of_tokens(words_of(tokenizers.src.tokens(src)), split_words(pair.src))
        tgt_words = words_of_tokens(words_of(tokenizers.tgt.tokens(tgt)), split_words(pair.tgt))
        found.append({(src_words[one], tgt_words[other]) for one, other in links})
    known = [set(pair.alignment) for pair in pairs]
    return counted(found, known, known)


def words_of_tokens(units: Sequence[Word], known: Sequence[str]) -> list[int]:
    """Return the word number of each token, counted as in the grammar ("3." is one word in "3. Mai")."""
    places = [number for number, word in enumerate(known) for _ in word]
    numbers, place = [], 0
    for unit in units:
        numbers += [places[place]] * (unit.stop - unit.start)
        place += len(unit.text)
    return numbers


def counted(found: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]) -> Counts:
    rows = zip(found, sure, possible, strict=True)
    return np.array([(len(each), len(s), len(each & s), len(each & p)) for each, s, p in rows])


def error_rate(counts: Counts) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|)."""
    found, sure, both, correct = counts.sum(0).tolist()
    return float(1 - (both + correct) / (found + sure))


def interval(counts: Counts) -> str:
    """The 95% bootstrap interval of the error rate."""
    chosen = np.random.default_rng(SEED).integers(len(counts), size=(SAMPLES, len(counts)))
    low, high = np.quantile([error_rate(counts[rows]) for rows in chosen], (0.025, 0.975))
    return f"{low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main()
