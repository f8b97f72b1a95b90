"""JoeyNMT: a joint SentencePiece BPE model, then its own data set, tokeniser and vocabulary, the ids to a file.

    joeynmt_prepare.py STEM OUT VOCAB_SIZE     reads STEM.xx and STEM.yy; prints a RESULT line

JoeyNMT keeps no ids: it tokenises each sentence when a batch is made. So this makes all batches once, with its own
loader and as many worker processes as there are cores, and writes what they hold. The vocabulary is the model's pieces,
as its documentation has it for SentencePiece.
"""

import logging
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import sentencepiece
from joeynmt.data import load_data
from outcome import print_result

LEARN_SENTENCES = 1_000_000
"""The largest number of sentences, chosen at random, that its vocabulary script learns from."""

# Newer releases of sentencepiece lack this method; the vocabulary here is all pieces, so it would change nothing.
if not hasattr(sentencepiece.SentencePieceProcessor, "SetVocabulary"):
    sentencepiece.SentencePieceProcessor.SetVocabulary = lambda processor, pieces: None

SPECIALS = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": "<sep>"}
IDS = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": 4}


def main() -> None:
    logging.disable(logging.INFO)
    stem, out, vocab_size = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    began = time.perf_counter()
    learn(stem, out, vocab_size)
    learnt = time.perf_counter()
    print_result(began, learnt, encode(stem, out))


def learn(stem: Path, out: Path, vocab_size: int) -> None:
    sentencepiece.SentencePieceTrainer.train(
        input=[f"{stem}.xx", f"{stem}.yy"],
        model_prefix=str(out / "spm"),
        model_type="bpe",
        vocab_size=vocab_size,
        character_coverage=1.0,
        num_threads=os.cpu_count(),
        input_sentence_size=LEARN_SENTENCES,
        shuffle_input_sentence=True,
        minloglevel=2,
        unk_id=0,
        pad_id=1,
        bos_id=2,
        eos_id=3,
    )
    pieces = [line.split("\t")[0] for line in (out / "spm.vocab").read_text(encoding="utf-8").split("\n")[4:]]
    (out / "vocab.txt").write_text("\n".join(piece for piece in pieces if piece) + "\n", encoding="utf-8")


def encode(stem: Path, out: Path) -> int:
    side = {
        "level": "bpe",
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(out / "spm.model")},
        "voc_file": str(out / "vocab.txt"),
    }
    config = {
        "train": str(stem),
        "dataset_type": "plain",
        "src": {"lang": "xx", **side},
        "trg": {"lang": "yy", **side},
        "special_symbols": SimpleNamespace(**SPECIALS, **IDS, lang_tags=[]),
    }
    train = load_data(config, datasets=["train"])[2]
    batches = train.make_iter(1000, "sentence", num_workers=os.cpu_count() or 1, pad_index=1, eos_index=3)
    rows = 0
    with (out / "ids").open("wb") as file:
        for batch in batches:
            for ids in (batch.src, batch.trg_input):
                array = ids.numpy()
                file.write(array[array != 1].astype(np.uint16).tobytes())
            rows += batch.nseqs
    return rows


if __name__ == "__main__":
    main()
