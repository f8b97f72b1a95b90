"""The data that every contender reads, as ids and pieces of one joint SentencePiece BPE: Multi30k, German to English.

Without DRAGOMAN_DATA made-up sentences of about the same lengths stand in; the reports say so. `quality_corpora`
prepares other pairs of languages in the same way.

    FOLDER/spm.model                   pad 0, bos 1, eos 2, unk 3, as in Dragoman
    FOLDER/{train,val}.{de,en}         sentences
    FOLDER/{train,val}.pieces.{de,en}  the same as pieces with spaces between
    FOLDER/pieces.txt                  the vocabulary, a piece a line, in the order of ids
    FOLDER/ids.npz  meta.json          ids without control ids; counts
"""

import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from recording import read_lines, write_json, write_lines

from side_by_side.shapes import BATCH_TOKENS

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
NUM_CONTROLS = 4
SRC_LANG, TGT_LANG = "de", "en"
VOCAB_SIZE = 10_000
PARTS = ("train", "val")

Rows = list[list[int]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A prepared folder."""

    folder: Path
    src_lang: str = SRC_LANG
    tgt_lang: str = TGT_LANG

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        return self.src_lang, self.tgt_lang

    @property
    def meta(self) -> dict[str, float | str]:
        """`source`, `vocab_size`, `<part>_pairs`, and mean lengths in tokens, end of sentence included."""
        content: dict[str, float | str] = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        return content

    @property
    def vocab_size(self) -> int:
        """Entries of the joint vocabulary, control ids included."""
        return int(self.meta["vocab_size"])

    def ids(self, part: str) -> tuple[Rows, Rows]:
        """Source and target rows, without control ids."""
        with np.load(self.folder / "ids.npz") as arrays:
            src, tgt = (
                np.split(arrays[f"{part}_{lang}"], np.cumsum(arrays[f"{part}_{lang}_lengths"])[:-1])
                for lang in self.langs
            )
        return [row.tolist() for row in src], [row.tolist() for row in tgt]

    def texts(self, part: str, lang: str) -> list[str]:
        """Return the sentences of one side."""
        return read_lines(self.folder / f"{part}.{lang}")

    def pieces(self) -> list[str]:
        """Return the vocabulary without the control pieces."""
        return read_lines(self.folder / "pieces.txt")[NUM_CONTROLS:]


def prepare(folder: Path) -> Corpus:
    """Make the folder once. Exit if it has other data, because measurements and models in it belong to that data."""
    raw = raw_folder()
    source = "Multi30k" if raw else "made-up sentences"
    corpus = Corpus(folder)
    if (folder / "meta.json").exists():
        if corpus.meta["source"] == source:
            return corpus
        held = corpus.meta["source"]
        sys.exit(f"{folder} holds {held}, not {source}. Set DRAGOMAN_DATA as before, or use another --folder.")
    parts = {
        part: _multi30k(raw, part) if raw else _made_up(29_000 if part == "train" else 1014, seed=PARTS.index(part))
        for part in PARTS
    }
    write_corpus(corpus, parts, source, VOCAB_SIZE)
    return corpus


def write_corpus(corpus: Corpus, parts: Mapping[str, Sequence[tuple[str, str]]], source: str, vocab_size: int) -> None:
    """Write sentences, pieces and ids of the parts "train" and "val". `source` is the name of the data in reports."""
    folder = corpus.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").unlink(missing_ok=True)
    for part in PARTS:
        for side, lang in enumerate(corpus.langs):
            write_lines(folder / f"{part}.{lang}", [pair[side] for pair in parts[part]])
    meta = {"source": source} | _encode(corpus, vocab_size)
    write_json(folder / "meta.json", meta)


def raw_folder() -> Path | None:
    """Return the folder of Multi30k, or None."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", "")) / "multi30k"
    return folder if "DRAGOMAN_DATA" in os.environ and folder.is_dir() else None


def train_sentencepiece(
    folder: Path, prefix: str, kind: str, vocab_size: int, langs: tuple[str, str] = (SRC_LANG, TGT_LANG)
) -> Path:
    """Train one joint model of `kind` (bpe, unigram) on the training text of a corpus folder, and return its file."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(folder / f"train.{lang}") for lang in langs),
        model_prefix=str(folder / prefix),
        model_type=kind,
        vocab_size=vocab_size,
        character_coverage=1.0,
        pad_id=PAD_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        unk_id=UNK_ID,
        pad_piece="<pad>",
        bos_piece="<s>",
        eos_piece="</s>",
        unk_piece="<unk>",
        minloglevel=2,
        num_threads=1,
    )
    return folder / f"{prefix}.model"


def peer_batches(src: Rows, tgt: Rows, batch_tokens: int = BATCH_TOKENS, seed: int = 1) -> list[list[int]]:
    """Indices in batches of similar length whose rows times the longest side are at most `batch_tokens`.

    They come in bit-reversed order (the middle one, the quarters, the eighths, ...) so that a run of a few seconds
    meets short, middling and long sentences alike.
    """
    shuffled = np.random.default_rng(seed).permutation(len(src)).tolist()
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for index in sorted(shuffled, key=lambda i: (len(tgt[i]), len(src[i]))):
        length = max(len(src[index]), len(tgt[index])) + 1
        if batch and max(longest, length) * (len(batch) + 1) > batch_tokens:
            batches.append(batch)
            batch, longest = [], 0
        batch.append(index)
        longest = max(longest, length)
    batches.append(batch)
    bits = len(batches).bit_length()
    turns = [*(int(f"{turn:0{bits}b}"[::-1], 2) for turn in range(1, 1 << bits)), 0]
    return [batches[place] for place in dict.fromkeys(turn * len(batches) >> bits for turn in turns)]


def _multi30k(raw: Path, part: str) -> list[tuple[str, str]]:
    src, tgt = (
        [" ".join(line.split()) for line in read_lines(raw / f"{part}.{lang}.gz")] for lang in (SRC_LANG, TGT_LANG)
    )
    return [pair for pair in zip(src, tgt, strict=True) if all(pair)]


def _made_up(num_pairs: int, seed: int) -> list[tuple[str, str]]:
    """Yield word-for-word translations of invented words, Zipf-distributed, with about 12 words per sentence."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]

    def words(language: int) -> list[str]:
        draw = random.Random(language)
        return ["".join(draw.choice(syllables) for _ in range(draw.randint(1, 4))) for _ in range(12_000)]

    src_words, tgt_words = words(1), words(2)
    weights = 1.0 / np.arange(1, len(src_words) + 1)
    draws = np.random.default_rng(seed)
    pairs = []
    for _ in range(num_pairs):
        length = max(4, int(draws.normal(12, 3.5)))
        chosen = draws.choice(len(src_words), length, p=weights / weights.sum()).tolist()
        pairs.append((" ".join(src_words[i] for i in chosen), " ".join(tgt_words[i] for i in chosen)))
    return pairs


def _encode(corpus: Corpus, vocab_size: int) -> dict[str, float]:
    """Write vocabulary, pieces and ids, and return the counts."""
    import sentencepiece

    folder = corpus.folder
    model = train_sentencepiece(folder, "spm", "bpe", vocab_size, corpus.langs)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    names = [processor.id_to_piece(index) for index in range(len(processor))]
    write_lines(folder / "pieces.txt", names)
    arrays: dict[str, np.ndarray] = {}
    meta: dict[str, float] = {"vocab_size": len(names)}
    for part in PARTS:
        for lang in corpus.langs:
            rows = processor.encode(read_lines(folder / f"{part}.{lang}"))
            write_lines(folder / f"{part}.pieces.{lang}", [" ".join(names[i] for i in row) for row in rows])
            arrays[f"{part}_{lang}"] = np.concatenate([np.asarray(row, np.int32) for row in rows])
            arrays[f"{part}_{lang}_lengths"] = np.asarray([len(row) for row in rows], np.int32)
            meta[f"{part}_pairs"] = len(rows)
            meta[f"{part}_{lang}_tokens"] = round(float(np.mean([len(row) + 1 for row in rows])), 3)
    np.savez(folder / "ids.npz", **arrays)
    src, tgt = corpus.ids("train")
    batches = peer_batches(src, tgt)
    meta["peer_tokens_per_step"] = round(sum(len(row) + 1 for row in tgt) / len(batches), 1)
    return meta
