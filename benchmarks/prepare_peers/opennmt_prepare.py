"""OpenNMT-py: `onmt_build_vocab` learns a joint BPE and counts the vocabulary; its transforms make ids, to a file.

    opennmt_prepare.py STEM OUT VOCAB_SIZE     reads STEM.xx and STEM.yy; prints a RESULT line

OpenNMT-py keeps no ids: its loader runs transforms and vocabulary on every line while training. So this runs the same
functions once over all lines, in as many processes as there are cores, each on its stride of the lines as the loader's
workers do, and writes the ids. `learn` is the whole of `onmt_build_vocab -learn_subwords`, without which there is no
vocabulary.
"""

import json
import multiprocessing
import os
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
from onmt.bin.build_vocab import build_vocab_main
from onmt.constants import CorpusTask
from onmt.inputters.inputter import build_vocab
from onmt.inputters.text_corpus import build_corpora_iters, get_corpora
from onmt.inputters.text_utils import numericalize, process
from onmt.opts import data_prepare_opts, train_opts
from onmt.transforms import get_specials, get_transforms_cls, make_transforms
from onmt.utils.parse import ArgumentParser
from outcome import print_result

PROCESSES = os.cpu_count() or 1
BUCKET_PAIRS = 10_000


def main() -> None:
    stem, out, vocab_size = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    config = write_config(stem, out, vocab_size)
    began = time.perf_counter()
    parser = ArgumentParser()
    data_prepare_opts(parser, build_vocab_only=True)
    build_vocab_main(parser.parse_known_args(["-config", str(config)])[0])
    learnt = time.perf_counter()
    with multiprocessing.Pool(PROCESSES) as pool:
        rows = pool.starmap(encode, [(config, out, worker) for worker in range(PROCESSES)])
    print_result(began, learnt, sum(rows))


def write_config(stem: Path, out: Path, vocab_size: int) -> Path:
    settings = {
        "data": {"corpus": {"path_src": f"{stem}.xx", "path_tgt": f"{stem}.yy", "transforms": ["onmt_tokenize"]}},
        "save_data": str(out / "data"),
        "src_vocab": str(out / "vocab"),
        "tgt_vocab": str(out / "vocab"),
        "share_vocab": True,
        "src_subword_type": "bpe",
        "tgt_subword_type": "bpe",
        "src_subword_model": str(out / "bpe.model"),
        "tgt_subword_model": str(out / "bpe.model"),
        "src_onmttok_kwargs": "{'mode': 'conservative', 'joiner_annotate': True}",
        "tgt_onmttok_kwargs": "{'mode': 'conservative', 'joiner_annotate': True}",
    }
    learning = {"learn_subwords": True, "learn_subwords_size": vocab_size, "n_sample": -1, "num_threads": PROCESSES}
    (out / "encode.yaml").write_text(json.dumps(settings))
    (out / "learn.yaml").write_text(json.dumps(settings | learning | {"overwrite": True}))
    return out / "learn.yaml"


def encode(config: Path, out: Path, worker: int) -> int:
    parser = ArgumentParser()
    train_opts(parser)
    opts = parser.parse_known_args(["-config", str(config.with_name("encode.yaml")), "-save_model", "none"])[0]
    ArgumentParser.validate_prepare_opts(opts)
    classes = get_transforms_cls(opts._all_transform)
    vocabs = build_vocab(opts, get_specials(opts, classes))
    transforms = make_transforms(opts, classes, vocabs)
    lines = build_corpora_iters(
        get_corpora(opts, CorpusTask.TRAIN), transforms, opts.data, stride=PROCESSES, offset=worker
    )["corpus"]
    rows, items = 0, iter(lines)
    with (out / f"ids.{worker}").open("wb") as file:
        while bucket := list(islice(items, BUCKET_PAIRS)):
            for example in process(CorpusTask.TRAIN, bucket) or ():
                numeric = numericalize(vocabs, example)
                file.write(np.array(numeric["src"]["src_ids"], np.uint16).tobytes())
                file.write(np.array(numeric["tgt"]["tgt_ids"], np.uint16).tobytes())
                rows += 1
    return rows


if __name__ == "__main__":
    main()
