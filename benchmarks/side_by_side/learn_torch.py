"""The curve of torch.nn.Transformer or of transformers' MarianMTModel, in a plain training loop.

The clock starts with the program and stops while the validation set is translated greedily.
"""

import argparse
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from side_by_side.batches import padded
from side_by_side.corpus import BOS_ID, EOS_ID, PAD_ID, Corpus, peer_batches
from side_by_side.learning import GREEDY_BATCH, Point, output_limit, score, steps_between
from side_by_side.shapes import LABEL_SMOOTHING, SIZES
from side_by_side.timing import print_result
from side_by_side.tries import TRIES, Settings

ADAM_EPSILON = 1e-9
IGNORED = -100

Rows = Sequence[Sequence[int]]


class Learner(ABC):
    """A model in training: logits for padded ids, and greedy outputs."""

    module: nn.Module
    packages: Sequence[str] = ("torch", "sacrebleu")

    @abstractmethod
    def logits(self, src: Tensor, decoder_input: Tensor) -> Tensor:
        """(rows, length, vocabulary)."""

    @abstractmethod
    def greedy(self, src: Tensor, limit: int) -> list[list[int]]:
        """Return the ids of one output per row, without control ids."""


class TorchLearner(Learner):
    """torch.nn.Transformer."""

    def __init__(self, vocab_size: int, settings: Settings) -> None:
        from side_by_side.train_torch import Model

        self.module = self.model = Model(
            vocab_size, SIZES["tiny"], float(settings["dropout"]), bool(settings["norm_first"])
        )

    def logits(self, src: Tensor, decoder_input: Tensor) -> Tensor:
        result: Tensor = self.model(src, decoder_input)
        return result

    def greedy(self, src: Tensor, limit: int) -> list[list[int]]:
        transformer, padding = self.model.transformer, src == PAD_ID
        memory = transformer.encoder(self.model.embed(src), src_key_padding_mask=padding)
        outputs = torch.full((len(src), 1), BOS_ID)
        ended = torch.zeros(len(src), dtype=torch.bool)
        for _ in range(limit):
            causal = nn.Transformer.generate_square_subsequent_mask(outputs.size(1))
            hidden = transformer.decoder(
                self.model.embed(outputs),
                memory,
                tgt_mask=causal,
                memory_key_padding_mask=padding,
                tgt_is_causal=True,
            )
            token = self.model.projection(hidden[:, -1]).argmax(-1).masked_fill(ended, PAD_ID)
            ended |= token == EOS_ID
            outputs = torch.cat((outputs, token[:, None]), dim=1)
            if ended.all():
                break
        return [[token for token in row if token not in (PAD_ID, BOS_ID, EOS_ID)] for row in outputs.tolist()]


class MarianLearner(Learner):
    """MarianMTModel, whose padding is last: all other ids are one lower than in the corpus."""

    packages = ("torch", "transformers", "sacrebleu")

    def __init__(self, vocab_size: int, settings: Settings) -> None:
        from transformers import MarianMTModel

        from side_by_side.marian import marian_config

        self.pad_id = vocab_size - 1
        config = marian_config(vocab_size, SIZES["tiny"], "relu", float(settings["dropout"]), inner_dropout=0.0)
        self.module = self.model = MarianMTModel(config)
        self.eos_id = config.eos_token_id = self.model.generation_config.eos_token_id = EOS_ID - 1

    def logits(self, src: Tensor, decoder_input: Tensor) -> Tensor:
        start = self._marian_ids(decoder_input)
        start[:, 0] = self.pad_id
        mask = (src != PAD_ID).long()
        result: Tensor = self.model(
            input_ids=self._marian_ids(src), attention_mask=mask, decoder_input_ids=start, use_cache=False
        ).logits
        # As in the corpus, so that labels need no change. Nothing predicts padding.
        return torch.cat((result[..., -1:], result[..., :-1]), dim=-1)

    def greedy(self, src: Tensor, limit: int) -> list[list[int]]:
        outputs = self.model.generate(
            input_ids=self._marian_ids(src),
            attention_mask=(src != PAD_ID).long(),
            num_beams=1,
            do_sample=False,
            bad_words_ids=[[self.pad_id]],
            max_length=None,
            max_new_tokens=limit,
        )
        ends = (self.pad_id, self.eos_id)
        return [[token + 1 for token in row[1:] if token not in ends] for row in outputs.tolist()]

    def _marian_ids(self, ids: Tensor) -> Tensor:
        return torch.where(ids == PAD_ID, self.pad_id, ids - 1)


LEARNERS: dict[str, type[Any]] = {"torch": TorchLearner, "marian": MarianLearner}


class Curve:
    """The clock of a run, and its points. The clock is stopped while a point is measured."""

    def __init__(self, learner: Learner, corpus: Corpus, metric: str, began: float) -> None:
        import sentencepiece

        self.learner, self.corpus, self.metric, self.began = learner, corpus, metric, began
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(corpus.folder / "spm.model"))
        self.references, self.src = corpus.texts("val", corpus.tgt_lang), corpus.ids("val")[0]
        self.paused = 0.0
        self.points: list[Point] = []
        self.signature = ""

    @property
    def seconds(self) -> float:
        """Seconds of training since the start of the program."""
        return time.time() - self.began - self.paused

    def measure(self, step: int) -> None:
        """Add a point, unless there is one of this step."""
        if self.points and self.points[-1][1] == step:
            return
        seconds, paused = self.seconds, time.time()
        self.learner.module.eval()
        with torch.inference_mode():
            outputs = translate(self.learner, self.src)
        self.learner.module.train()
        value, self.signature = score(self.metric, self.processor.decode(outputs), self.references)
        self.points.append((round(seconds / 60, 4), step, value))
        self.paused += time.time() - paused


def translate(learner: Learner, src: Rows) -> list[list[int]]:
    """Return greedy outputs, made in batches of similar length."""
    order = sorted(range(len(src)), key=lambda index: -len(src[index]))
    outputs: list[list[int]] = [[]] * len(src)
    for start in range(0, len(order), GREEDY_BATCH):
        batch = order[start : start + GREEDY_BATCH]
        rows = padded([[*src[index], EOS_ID] for index in batch])
        for index, output in zip(batch, learner.greedy(rows, output_limit(rows.size(1))), strict=True):
            outputs[index] = output
    return outputs


def endless_batches(corpus: Corpus, batch_tokens: int, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield source, decoder input and labels of batches in random order, made again in every epoch."""
    src, tgt = corpus.ids("train")
    epoch = 0
    while True:
        batches = peer_batches(src, tgt, batch_tokens, seed=1000 * seed + epoch)
        Random(1000 * seed + epoch).shuffle(batches)
        for indices in batches:
            labels = padded([[*tgt[index], EOS_ID] for index in indices], IGNORED)
            decoder_input = padded([[BOS_ID, *tgt[index]] for index in indices])
            yield padded([[*src[index], EOS_ID] for index in indices]), decoder_input, labels
        epoch += 1


def train(curve: Curve, settings: Settings, given: argparse.Namespace) -> tuple[int, float]:
    """Train until the time is up, and return the steps and target tokens/s."""
    learner, warmup = curve.learner, int(settings["warmup"])
    criterion = nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING, reduction="sum", ignore_index=IGNORED)
    parameters = [each for each in learner.module.parameters() if each.requires_grad]
    betas = (0.9, float(settings["beta2"]))
    optimizer = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=ADAM_EPSILON, fused=True)
    every, tokens, started = steps_between(given.every_tokens, settings["batch_tokens"]), 0, curve.seconds
    learner.module.train()
    batches = endless_batches(curve.corpus, int(settings["batch_tokens"]), given.seed)
    for step, (src, decoder_input, labels) in enumerate(batches, start=1):
        count = int((labels != IGNORED).sum())
        for group in optimizer.param_groups:
            group["lr"] = float(settings["peak"]) * min(step / warmup, math.sqrt(warmup / step))
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bfloat16):
            logits = learner.logits(src, decoder_input)
        loss = criterion(logits.float().flatten(0, 1), labels.flatten()) / count
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += count
        is_over = curve.seconds >= 60 * given.minutes
        if is_over or step % every == 0:
            speed = tokens / (curve.seconds - started)
            curve.measure(step)
        if is_over:
            return step, speed
    raise AssertionError("the batches are endless")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contender", choices=list(LEARNERS), required=True)
    parser.add_argument("--try", dest="number", type=int, default=0, help="index of the settings in `tries`")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--langs", nargs=2, required=True)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--every-tokens", type=int, default=200_000)
    parser.add_argument("--began", type=float, default=time.time(), help="seconds since 1970 when the program began")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bfloat16", action="store_true", help="forward pass under torch.autocast")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    corpus, settings = Corpus(given.data, *given.langs), TRIES[given.contender][given.number].settings
    learner: Learner = LEARNERS[given.contender](corpus.vocab_size, settings)
    curve = Curve(learner, corpus, given.metric, given.began)
    steps, speed = train(curve, settings, given)
    result = {
        "curve": curve.points,
        "steps": steps,
        "tokens_per_second": round(speed),
        "parameters": sum(each.numel() for each in learner.module.parameters() if each.requires_grad),
        "signature": curve.signature,
    }
    print_result(result, "bfloat16" if given.bfloat16 else "float32", learner.packages)


if __name__ == "__main__":
    main()
