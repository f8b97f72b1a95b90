"""Compares word alignments from attention with the true alignments of the phrasebook's grammar.

It uses 300 test pairs of the phrasebook, and 200 validation pairs to check that both would choose the same default. The
model reads each pair with teacher forcing, so that the target is the reference, whose alignment is known. The script
reads the decoder's attention at every layer: at the step that predicts a word (``prediction``), and at the next step
(``next``: Shift-Att, Chen et al. 2020). The alignment error rate is that of Och and Ney 2003, with all links of the
grammar as sure links. Intervals come from 1,000 bootstrap samples of the test pairs.

    dragoman demo --out runs/demo
    python benchmarks/alignment.py runs/demo
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from dragoman.bundle import Model, resolve_model_folder
from dragoman.demo.phrasebook import PhrasebookPair, split_words
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.inference.alignment import DEFAULT_READING, Aligner, Reading, alignment_layer
from dragoman.text.tokenization.words import Word, words_of

PAIRS, SAMPLES, SEED = 300, 1000, 1
READINGS: tuple[Reading, Reading] = ("prediction", "next")
Counts = tuple[int, int, int]
"""The numbers of links found, of true links, and of links that are both."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model trained on the phrasebook, such as `dragoman demo` makes")
    folder = resolve_model_folder(parser.parse_args().model)
    trained = Model.load(folder, "cpu")
    split = load_phrasebook().split(SEED, 30_000, 500)
    pairs = split.test[:PAIRS]
    layers = trained.config.model.num_decoder_layers
    print(f"{len(pairs)} test pairs, {len(split.dev)} validation pairs; {layers} decoder layers")
    print("| decoder layer | reading | AER, validation | AER, test | 95% interval |\n| --- | --- | ---: | ---: | --- |")
    for layer in range(layers):
        counts = {reading: counted(trained, pairs, reading, layer) for reading in READINGS}
        for reading, found in counts.items():
            low, high = interval([[row] for row in found])
            default = layer == alignment_layer(layers) and reading == DEFAULT_READING
            dev = error_rate(counted(trained, split.dev, reading, layer))
            name = f"{reading} (default)" if default else reading
            print(f"| {layer + 1} | {name} | {dev:.3f} | {error_rate(found):.3f} | {low:.3f} to {high:.3f} |")
        low, high = interval([list(both) for both in zip(*counts.values(), strict=True)])
        print(f"| {layer + 1} | next minus prediction | | {difference(counts):.3f} | {low:.3f} to {high:.3f} |")


def counted(trained: Model, pairs: Sequence[PhrasebookPair], reading: Reading, layer: int) -> list[Counts]:
    """Count for each pair the links found, the true links, and the links that are both."""
    tokenizers = trained.tokenizers
    ids = [(tokenizers.src.encode(pair.src), tokenizers.tgt.encode(pair.tgt)) for pair in pairs]
    found = Aligner([trained.weights], tokenizers, reading, layer).links(ids)
    counts = []
    for pair, (src, tgt), links in zip(pairs, ids, found, strict=True):
        src_words = words_of_tokens(words_of(tokenizers.src.tokens(src)), split_words(pair.src))
        tgt_words = words_of_tokens(words_of(tokenizers.tgt.tokens(tgt)), split_words(pair.tgt))
        between = {(src_words[one], tgt_words[other]) for one, other in links}
        counts.append((len(between), len(pair.alignment), len(between & set(pair.alignment))))
    return counts


def words_of_tokens(units: Sequence[Word], known: Sequence[str]) -> list[int]:
    """Return the word number of each token, counted as in the grammar ("3." is one word in "3. Mai")."""
    places = [number for number, word in enumerate(known) for _ in word]
    numbers, place = [], 0
    for unit in units:
        numbers += [places[place]] * (unit.stop - unit.start)
        place += len(unit.text)
    return numbers


def error_rate(counts: Sequence[Counts]) -> float:
    """1 - 2 |A and S| / (|A| + |S|)."""
    found, known, both = (sum(column) for column in zip(*counts, strict=True))
    return float(1 - 2 * both / (found + known))


def difference(counts: dict[Reading, list[Counts]]) -> float:
    return error_rate(counts["next"]) - error_rate(counts["prediction"])


def interval(rows: Sequence[Sequence[Counts]]) -> tuple[float, float]:
    """Return the 95% bootstrap interval of an error rate, or of the difference of two."""
    rng = random.Random(SEED)
    values = []
    for _ in range(SAMPLES):
        drawn = list(zip(*rng.choices(rows, k=len(rows)), strict=True))
        rates = [error_rate(column) for column in drawn]
        values.append(rates[0] if len(rates) == 1 else rates[1] - rates[0])
    values.sort()
    return values[round(0.025 * SAMPLES)], values[round(0.975 * SAMPLES) - 1]


if __name__ == "__main__":
    main()
