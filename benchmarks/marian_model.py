"""Makes the model that transformers, CTranslate2 and Dragoman share in the benchmarks, with the same weights.

    python benchmarks/marian_model.py --size tiny --minutes 20 [--folder .bench]

1. transformers makes a MarianMTModel with random weights and a SentencePiece tokenizer for Multi30k, German to English.
2. Dragoman imports and trains it, so that its translations have a real BLEU. The best checkpoint is chosen on the
   sentences that the benchmarks translate, because the model is only for measuring speed.
3. The model is written in three forms below FOLDER/models/SIZE: dragoman, marian (transformers) and ctranslate2.

Training the base model would take many hours. It starts from the trained tiny model, made wider and deeper
(`side_by_side/grown.py`). An interrupted run continues.
"""

import argparse
import json
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from side_by_side.corpus import NUM_CONTROLS, SRC_LANG, TGT_LANG, VOCAB_SIZE, Corpus, prepare, train_sentencepiece
from side_by_side.grown import grow
from side_by_side.marian import MARIAN_EOS_ID, MARIAN_UNK_ID, marian_config
from side_by_side.shapes import LABEL_SMOOTHING, SIZES, Size
from torch.optim.optimizer import register_optimizer_step_post_hook

from dragoman.bundle import Model, Weights, resolve_model_folder
from dragoman.config import Config, TrainSettings, ValidateSettings
from dragoman.data.store import InMemoryPairs
from dragoman.evaluation.metrics import bleu
from dragoman.exchange.marian import export_marian, import_marian
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, PAD_ID
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.run.log import LogLines, RunLog
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.session import TrainingSession
from dragoman.training.trainer import choose_mean, fit

MAX_TOKENS = 128
# These settings learn most in an hour: many small steps, little dropout, and sublayers that start small beside their
# residuals, because post-norm is slow to learn where to attend (see docs/log/2026.md).
DROPOUT = 0.1
BRANCH_SCALE = 0.2
RECIPES = {
    "tiny": TrainSettings(learning_rate=0.003, warmup_steps=600, batch_tokens=2048),
    "base": TrainSettings(learning_rate=0.0002, warmup_steps=100, batch_tokens=2048),
}
GROWN_FROM = {"base": "tiny"}


@dataclass(frozen=True, slots=True)
class GreedyScore:
    """The score of a validation: BLEU of greedy translations."""

    tokenizers: TokenizerPair
    config: Config
    sources: list[str]
    references: list[str]

    def __call__(self, model: Transformer) -> dict[str, float]:
        settings = replace(self.config.inference, beam_size=1, n_best=1)
        translator = Translator.from_model(model, self.tokenizers, settings, MAX_TOKENS)
        return {"bleu": bleu(translator.translate(self.sources), self.references).value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, validation included")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / ".bench")
    parser.add_argument("--threads", type=int, help="as many as torch chooses where not given")
    parser.add_argument("--validate-every", type=int, default=200, metavar="STEPS")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    size, corpus = SIZES[given.size], prepare(given.folder / "corpus")
    models, run = given.folder / "models" / size.name, given.folder / "model_runs" / size.name
    small = models.parent / GROWN_FROM[size.name] / "dragoman" if size.name in GROWN_FROM else None
    if small and not small.exists():
        raise SystemExit(f"{small}: not found; make it first: marian_model.py --size {GROWN_FROM[size.name]}")
    make_random(corpus, size, models / "random")
    trained = restarted(import_marian(models / "random", f"benchmark-{SRC_LANG}-{TGT_LANG}").model)
    if small:
        grow(Model.load(small, "cpu").transformer, trained.transformer)
    settings = replace(
        RECIPES[size.name],
        label_smoothing=LABEL_SMOOTHING,
        max_minutes=given.minutes,
        patience=0,
        device="cpu",
        average_last=3,
    )
    validate = ValidateSettings(every_epochs=0, every_steps=given.validate_every, metric="bleu", beam_size=1)
    train(replace(trained, config=replace(trained.config, train=settings, validate=validate)), corpus, run)
    write_forms(Model.load(resolve_model_folder(run), "cpu"), models)


def make_random(corpus: Corpus, size: Size, folder: Path) -> None:
    """Return a MarianMTModel folder as on the hub, with random weights. Made once."""
    from transformers import MarianMTModel

    if (folder / "vocab.json").exists():
        return
    spm = train_sentencepiece(corpus.folder, "marian", "unigram", VOCAB_SIZE)
    pieces = [line.split("\t")[0] for line in spm.with_suffix(".vocab").read_text(encoding="utf-8").split("\n") if line]
    names = ["</s>", "<unk>", *pieces[NUM_CONTROLS:], "<pad>"]
    assert names.index("</s>") == MARIAN_EOS_ID
    assert names.index("<unk>") == MARIAN_UNK_ID
    torch.manual_seed(1)
    MarianMTModel(marian_config(len(names), size, "swish")).save_pretrained(folder)
    for name in ("source.spm", "target.spm"):
        shutil.copy(spm, folder / name)
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": SRC_LANG,
        "target_lang": TGT_LANG,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": 512,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=1) + "\n", encoding="utf-8")
    vocabulary = {name: index for index, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n", encoding="utf-8")


def restarted(trained: Model) -> Model:
    """Return the imported model with Dragoman's initial weights, which learn faster than Marian's small ones.

    In Marian's form, the decoder starts from an embedding of zeros, and CTranslate2 relies on that. The rows of our bos
    and padding stay zero, and keep their imported biases.
    """
    shape = replace(trained.config.model, dropout=DROPOUT)
    torch.manual_seed(1)
    model = Transformer(shape, trained.transformer.src_vocab_size, trained.transformer.tgt_vocab_size)
    _clear_start_rows(model)
    with torch.no_grad():
        model.projection.bias.copy_(trained.transformer.projection.bias)
        for name, weight in model.named_parameters():
            if name.endswith(("attn.out.weight", "feed_forward.outer.weight")):
                weight.mul_(BRANCH_SCALE)
    register_optimizer_step_post_hook(lambda *_: _clear_start_rows(model))
    return replace(trained, weights=Weights.of(model), config=replace(trained.config, model=shape))


@torch.no_grad()
def _clear_start_rows(model: Transformer) -> None:
    """Set the rows of padding and bos to zero again; called after every step of any optimizer."""
    model.tgt_embedding.weight[[PAD_ID, BOS_ID]] = 0.0


def train(trained: Model, corpus: Corpus, folder: Path) -> None:
    """Train in the run `folder`, which then has a best checkpoint or an average."""
    texts = {part: [corpus.texts(part, lang) for lang in (SRC_LANG, TGT_LANG)] for part in ("train", "val")}
    train_pairs, dev_pairs = (_encoded(trained.tokenizers, *texts[part]) for part in ("train", "val"))
    score = GreedyScore(trained.tokenizers, trained.config, *texts["val"])
    folder.mkdir(parents=True, exist_ok=True)
    log = RunLog(folder, LogLines(sys.stderr))
    session = TrainingSession(RunFolder(folder), trained, train_pairs, dev_pairs, score, log)
    try:
        log.say(f"Stopped: {fit(session)}.")
        choose_mean(session)
    finally:
        log.close()


def _encoded(tokenizers: TokenizerPair, src: list[str], tgt: list[str]) -> InMemoryPairs:
    rows = zip(tokenizers.src.encode_batch(src), tokenizers.tgt.encode_batch(tgt), strict=True)
    kept = [pair for pair in rows if all(0 < len(ids) <= MAX_TOKENS for ids in pair)]
    return InMemoryPairs([pair[0] for pair in kept], [pair[1] for pair in kept])


def write_forms(trained: Model, folder: Path) -> None:
    """Write the trained model for each engine. Raise SystemExit if its start embedding is not zero."""
    from ctranslate2.converters import TransformersConverter

    if trained.transformer.tgt_embedding.weight[[PAD_ID, BOS_ID]].any():
        raise SystemExit(
            "the rows of padding and bos have been trained: CTranslate2 would start from another embedding"
        )
    trained.save(folder / "dragoman")
    for note in export_marian(trained, folder / "marian"):
        print(note)
    TransformersConverter(str(folder / "marian")).convert(str(folder / "ctranslate2"), force=True)
    print(f"the model is in {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


if __name__ == "__main__":
    main()
