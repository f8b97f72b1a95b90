"""Measures training and translation on a GPU: Dragoman, torch.nn.Transformer and Marian in transformers.

    python benchmarks/gpu.py [--sizes tiny base big] [--seconds 60] [--device cuda] [--out FILE]

It needs no data: sentences are random ids with lengths as in news text. Everything is in bfloat16 (autocast in
training, weights in translation). All contenders train on the same steps of `--batch-tokens` target tokens. The first
third of the time is warm-up and does not count. Tokens are target tokens without padding, with the end of the sentence.

Utilization is the rate of the model's products for these tokens, three times the forward pass, relative to one large
bfloat16 matrix product on the same chip in the same run. Padding, dropout and other operations do not count.

In translation, every output has `--length` tokens, so that untrained weights are enough. Sentences are sorted by
length. transformers is left out if it is not installed. The table goes to stderr, and the JSON to stdout.
"""

import argparse
import contextlib
import gc
import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from gpu_peers import MARIAN_MISSING, MarianPeer, TorchPeer
from recording import say, write_json
from torch import Tensor

from dragoman.bundle import Card, Model, Weights
from dragoman.config import PRESETS, Config, InferenceSettings, ModelSettings, TokenizerSettings, TrainSettings
from dragoman.config.settings import ValidateSettings
from dragoman.data.batch import pad_ids
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import BatchStream, StepPlan
from dragoman.devices.device import resolve_device
from dragoman.engines.search.beam import beam_search
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.model.transformer import Transformer
from dragoman.records import EOS_ID, PAD_ID
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer
from dragoman.training.run.log import RunLog
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.session import TrainingSession
from dragoman.training.step.memory import micro_batch_tokens as fast_micro_batch_tokens
from dragoman.training.step.memory import padding_slack
from dragoman.training.trainer import fit

VOCAB_SIZE = 32_000
NUM_PAIRS = 100_000
FIRST_ID = 4
LABEL_SMOOTHING = 0.1
WARM_UP_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class TrainingResult:
    contender: str
    size: str
    tokens_per_second: float
    utilisation: float
    peak_gb: float
    steps: int
    loss: float


@dataclass(frozen=True, slots=True)
class TranslationResult:
    contender: str
    size: str
    beam: int
    sentences_per_second: float
    peak_gb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, a contender and size")
    parser.add_argument("--sizes", nargs="+", default=["tiny", "base", "big"], choices=["tiny", "small", "base", "big"])
    parser.add_argument("--batch-tokens", type=int, help="target tokens of an optimiser step (32,768; cpu: 2,048)")
    parser.add_argument("--sentences", type=int, help="to translate (1,000; cpu: 40)")
    parser.add_argument("--length", type=int, default=25, help="tokens of every output")
    parser.add_argument("--rows", type=int, default=256, help="sentences translated at once")
    parser.add_argument("--skip", nargs="*", default=[], choices=["training", "translation", "peers", "compiled"])
    parser.add_argument("--out", type=Path, help="a file for the JSON result")
    given = parser.parse_args()
    device = resolve_device(given.device)
    given.batch_tokens = given.batch_tokens or (2048 if device.type == "cpu" else 32_768)
    given.sentences = given.sentences or (40 if device.type == "cpu" else 1000)
    ceiling = matrix_product_rate(device)
    say(f"{machine(device)['device']}: {ceiling / 1e12:.1f} TFLOP/s in bfloat16 matrix products; {MARIAN_MISSING}")
    training: list[TrainingResult] = []
    translation: list[TranslationResult] = []
    for size in given.sizes:
        if "training" not in given.skip:
            training += trained(size, device, given, ceiling)
        if "translation" not in given.skip:
            translation += translated(size, device, given)
    report = {
        "benchmark": "gpu",
        "machine": machine(device),
        "matrix_product_tflops": round(ceiling / 1e12, 1),
        "settings": {name: value for name, value in vars(given).items() if name != "out"},
        "training": [asdict(result) for result in training],
        "translation": [asdict(result) for result in translation],
    }
    say(tables(training, translation))
    print(json.dumps(report))
    if given.out:
        write_json(given.out, report)


# Training.


def trained(size: str, device: torch.device, given: argparse.Namespace, ceiling: float) -> Iterator[TrainingResult]:
    pairs = made_up_pairs(NUM_PAIRS)
    flops = training_flops_a_token(PRESETS[size], pairs)
    contenders: dict[str, Callable[[], tuple[float, int, float]]] = {
        name: lambda config=config: train_dragoman(config, pairs, device, given.seconds)
        for name, config in dragoman_configs(size, device, given)
    }
    if "peers" not in given.skip:
        config = config_of(size, device, given)
        contenders["torch.nn.Transformer"] = lambda: train_peer(TorchPeer, config, pairs, device, given.seconds)
        if not MARIAN_MISSING:
            contenders["transformers Marian"] = lambda: train_peer(MarianPeer, config, pairs, device, given.seconds)
    for name, contender in contenders.items():
        with memory_of(device) as peak, failure_is_said(name, size):
            rate, steps, loss = contender()
            result = TrainingResult(name, size, round(rate), rate * flops / ceiling, peak(), steps, loss)
            say(
                f"{size}, training, {name}: {rate:,.0f} tokens/s, {result.utilisation:.1%} of the ceiling, "
                f"{result.peak_gb:.1f} GB, loss {loss:.2f} after {steps} steps"
            )
            yield result


def config_of(size: str, device: torch.device, given: argparse.Namespace) -> Config:
    return Config(
        tokenizer=TokenizerSettings(vocab_size=VOCAB_SIZE),
        model=PRESETS[size],
        train=TrainSettings(
            batch_tokens=given.batch_tokens,
            max_minutes=given.seconds / 60,
            patience=0,
            warmup_steps=4000,
            learning_rate=0.0007,
            label_smoothing=LABEL_SMOOTHING,
            precision="bfloat16",
            device=str(device),
            log_every_steps=log_every(device),
            average_last=0,
        ),
        validate=ValidateSettings(every_epochs=0, every_steps=10**9, metric="loss"),
    )


def dragoman_configs(size: str, device: torch.device, given: argparse.Namespace) -> Iterator[tuple[str, Config]]:
    """Yield the configurations to measure: without and, if there is a setting for it, with compiling."""
    config = config_of(size, device, given)
    yield "Dragoman", config
    if "compiled" not in given.skip and "compile" in {field.name for field in fields(TrainSettings)}:
        yield "Dragoman, compiled", replace(config, train=replace(config.train, compile=True))


def train_dragoman(
    config: Config, pairs: InMemoryPairs, device: torch.device, seconds: float
) -> tuple[float, int, float]:
    """Run Dragoman's trainer for some seconds. Return tokens per second from its log, steps and the last loss."""
    torch.manual_seed(1)
    model = Transformer(config.model, VOCAB_SIZE, VOCAB_SIZE).to(device)
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=300), ["made up"])  # a model folder must hold one
    trained = Model(Weights.of(model), TokenizerPair(tokenizer, tokenizer, joint=True), config, Card())
    with tempfile.TemporaryDirectory() as name, contextlib.closing(RunLog(Path(name))) as log:
        fit(TrainingSession(RunFolder(Path(name)), trained, pairs, made_up_pairs(64), lambda model: {}, log))
        lines = (Path(name) / "log.jsonl").read_text().split("\n")
    events = [json.loads(line) for line in lines if line]
    return rate_of([event for event in events if event["event"] == "train"], seconds)


def rate_of(events: list[dict[str, float]], seconds: float) -> tuple[float, int, float]:
    """Read tokens per second after the warm-up, the number of steps and the last loss from the lines of a log."""
    last = events[-1]
    start = next((event["seconds"] for event in reversed(events) if event["seconds"] < WARM_UP_SHARE * seconds), 0.0)
    tokens, before = 0.0, 0.0
    for event in events:
        if event["seconds"] > start:
            tokens += event["tokens_per_second"] * (event["seconds"] - before)
        before = event["seconds"]
    return tokens / (last["seconds"] - start), int(last["step"]), last["loss"]


def train_peer(
    kind: type[TorchPeer | MarianPeer], config: Config, pairs: InMemoryPairs, device: torch.device, seconds: float
) -> tuple[float, int, float]:
    """Train in a plain loop over the same steps and micro-batches; autocast, fused AdamW, synchronizing only to log."""
    torch.manual_seed(1)
    peer = kind(config.model, VOCAB_SIZE, longest(pairs)).to(device).train()
    optimizer = torch.optim.AdamW(peer.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True)
    reference = Transformer(config.model, VOCAB_SIZE, VOCAB_SIZE).to(device)
    micro_batch_tokens = fast_micro_batch_tokens(config.train, pairs, reference.device)
    del reference
    began = time.perf_counter()
    warm, tokens, steps = 0.0, 0, 0
    loss = torch.zeros((), device=device)
    pin_memory, slack = device.type == "cuda", padding_slack(device)
    plan = StepPlan(config.train.batch_tokens, micro_batch_tokens, seed=1, padding_slack=slack, pin_memory=pin_memory)
    with BatchStream(pairs, plan) as stream:
        for step in stream:
            loss = torch.zeros((), device=device)
            for batch in step.batches:
                with torch.autocast(device.type, torch.bfloat16):
                    part = peer.loss(batch.to(device), LABEL_SMOOTHING) / step.num_tgt_tokens
                part.backward()
                loss += part.detach()
            torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            steps, tokens = steps + 1, tokens + step.num_tgt_tokens
            if steps % log_every(device) == 0:
                synchronise(device)
                passed = time.perf_counter() - began
                if not warm and passed > WARM_UP_SHARE * seconds:
                    warm, tokens = passed, 0
                elif passed > seconds and tokens:
                    break
    return tokens / (time.perf_counter() - began - warm), steps, loss.item()


def log_every(device: torch.device) -> int:
    """Steps between two readings of the clock, each of which waits for the GPU."""
    return 1 if device.type == "cpu" else 5


def training_flops_a_token(settings: ModelSettings, pairs: InMemoryPairs) -> float:
    """Return the mean floating-point operations per target token of a training step: 3 times a forward pass.

    These are the products of the layers, of attention (half of the square for the decoder's self-attention) and of the
    projection to the vocabulary.
    """
    width, inner = settings.d_model, settings.d_ff
    src = np.minimum(pairs.src_counts, longest(pairs)).astype(np.float64) + 1
    tgt = pairs.tgt_counts.astype(np.float64) + 1
    encoder = (8 * width**2 + 4 * width * inner) * src.sum() + 4 * width * (src**2).sum()
    decoder = (12 * width**2 + 4 * width * inner) * tgt.sum() + 4 * width**2 * src.sum()
    decoder += 4 * width * ((tgt**2).sum() / 2 + (src * tgt).sum())
    projection = 2 * width * VOCAB_SIZE * tgt.sum()
    forward = settings.num_encoder_layers * encoder + settings.num_decoder_layers * decoder + projection
    return float(3 * forward / tgt.sum())


# Translation.


class FixedLength(FastModel):
    """Return a model whose settings give every output the same length."""

    def __init__(self, model: Transformer, length: int) -> None:
        super().__init__(model, "bfloat16")
        self._length = length

    @property
    def max_length(self) -> int:
        return self._length


def translated(size: str, device: torch.device, given: argparse.Namespace) -> Iterator[TranslationResult]:
    pairs = made_up_pairs(given.sentences, seed=1)
    order = np.argsort(pairs.src_counts, kind="stable")
    batches = [
        pad_ids([[*pairs.src_ids(int(index)), EOS_ID] for index in order[start : start + given.rows]], PAD_ID)
        for start in range(0, len(order), given.rows)
    ]
    torch.manual_seed(1)
    contenders: dict[str, Callable[[], Callable[[Tensor, Tensor, int], object]]] = {
        "Dragoman": lambda: dragoman_search(PRESETS[size], device, given.length)
    }
    if "peers" not in given.skip and not MARIAN_MISSING:
        contenders["transformers Marian"] = lambda: marian_search(PRESETS[size], device, given.length)
    for name, make in contenders.items():
        with memory_of(device) as peak, failure_is_said(name, size):
            search = make()
            for beam in (5, 1):
                src_ids, src_lengths = batches[0]
                search(src_ids.to(device), src_lengths.to(device), beam)
                synchronise(device)
                began = time.perf_counter()
                for src_ids, src_lengths in batches:
                    search(src_ids.to(device), src_lengths.to(device), beam)
                synchronise(device)
                rate = len(pairs) / (time.perf_counter() - began)
                say(f"{size}, translation, {name}, beam {beam}: {rate:,.1f} sentences/s, {peak():.1f} GB")
                yield TranslationResult(name, size, beam, round(rate, 1), peak())


def dragoman_search(
    settings: ModelSettings, device: torch.device, length: int
) -> Callable[[Tensor, Tensor, int], object]:
    step_model = FixedLength(Transformer(settings, VOCAB_SIZE, VOCAB_SIZE).to(device).eval(), length)

    def search(src_ids: Tensor, src_lengths: Tensor, beam: int) -> object:
        inference = InferenceSettings(beam_size=beam, min_tokens=length, max_extra_tokens=length)
        return beam_search(step_model, src_ids, src_lengths, inference)

    return search


def marian_search(
    settings: ModelSettings, device: torch.device, length: int
) -> Callable[[Tensor, Tensor, int], object]:
    peer = MarianPeer(settings, VOCAB_SIZE, 512).to(device, torch.bfloat16).eval()
    return lambda src_ids, src_lengths, beam: peer.generate(src_ids, src_lengths, beam, length)


# Shared by training and translation.


def made_up_pairs(count: int, seed: int = 0) -> InMemoryPairs:
    """Return pairs of random ids with 24 tokens on average, 127 at most, and sides of similar length."""
    random = np.random.default_rng(seed)
    src = np.clip(np.rint(random.lognormal(3.0, 0.6, count)), 2, 127).astype(np.int64)
    tgt = np.clip(np.rint(src * random.normal(1.05, 0.15, count)), 2, 127).astype(np.int64)
    sides = (random.integers(FIRST_ID, VOCAB_SIZE, int(lengths.sum()), np.int32) for lengths in (src, tgt))
    src_rows, tgt_rows = (
        np.split(ids, np.cumsum(lengths)[:-1]) for ids, lengths in zip(sides, (src, tgt), strict=True)
    )
    return InMemoryPairs(src_rows, tgt_rows)


def longest(pairs: InMemoryPairs) -> int:
    return 1 + max(int(pairs.src_counts.max()), int(pairs.tgt_counts.max()))


def matrix_product_rate(device: torch.device) -> float:
    """Return the operations per second of a large bfloat16 product: the best of several runs."""
    size = 8192 if device.type == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    rates = []
    for _ in range(5):
        left @ right
        synchronise(device)
        began = time.perf_counter()
        for _ in range(10):
            left @ right
        synchronise(device)
        rates.append(10 * 2 * size**3 / (time.perf_counter() - began))
    return max(rates)


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def memory_of(device: torch.device) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the peak of allocated GB since the block started, or 0 on a CPU."""
    gc.collect()
    if device.type != "cuda":
        yield lambda: 0.0
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    yield lambda: torch.cuda.max_memory_allocated(device) / 1e9


@contextlib.contextmanager
def failure_is_said(name: str, size: str) -> Iterator[None]:
    """Report a contender that runs out of memory or does not compile, so that the others continue."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).splitlines() or [""])[0]
        say(f"{size}, {name} failed and is left out: {type(error).__name__}: {reason}")


def machine(device: torch.device) -> dict[str, object]:
    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cuda": torch.version.cuda if is_cuda else None,
        "versions": {name: found for name in ("torch", "dragoman", "transformers") if (found := installed(name))},
    }


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def tables(training: list[TrainingResult], translation: list[TranslationResult]) -> str:
    """Print every rate, and the ratio of Dragoman's rate to it."""
    lines = [f"\n{'training':<28} {'size':<6} {'tokens/s':>12} {'of ceiling':>11} {'peak GB':>8} {'ours is':>8}"]
    best = best_of_ours({(each.contender, each.size): each.tokens_per_second for each in training})
    lines += [
        f"{each.contender:<28} {each.size:<6} {each.tokens_per_second:12,.0f} {each.utilisation:11.1%} "
        f"{each.peak_gb:8.1f} {best.get(each.size, 0.0) / each.tokens_per_second:7.2f}x"
        for each in training
    ]
    lines.append(f"\n{'translation':<28} {'size':<6} {'beam':>4} {'sentences/s':>12} {'peak GB':>8} {'ours is':>8}")
    rates = {(each.contender, f"{each.size} {each.beam}"): each.sentences_per_second for each in translation}
    best = best_of_ours(rates)
    lines += [
        f"{each.contender:<28} {each.size:<6} {each.beam:4} {each.sentences_per_second:12,.1f} {each.peak_gb:8.1f} "
        f"{best.get(f'{each.size} {each.beam}', 0.0) / each.sentences_per_second:7.2f}x"
        for each in translation
    ]
    return "\n".join(lines)


def best_of_ours(rates: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return the faster of Dragoman's contenders for each size."""
    best: dict[str, float] = {}
    for (contender, size), rate in rates.items():
        if contender.startswith("Dragoman"):
            best[size] = max(best.get(size, 0.0), rate)
    return best


if __name__ == "__main__":
    main()
