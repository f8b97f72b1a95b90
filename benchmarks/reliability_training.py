"""Faults planted in training, checkpoints and models: one row of a table a subcommand. See docs/reliability.md.

    python benchmarks/reliability_training.py damage        flipped bits, truncations, zeroed blocks
    python benchmarks/reliability_training.py hostile       model folders made to deceive
    python benchmarks/reliability_training.py kills         70 steps straight, in two parts, with seven SIGKILLs
    python benchmarks/reliability_training.py saving        200 SIGKILLs while checkpoints are written
    python benchmarks/reliability_training.py disk          ENOSPC, EIO, EROFS at every call that writes
    python benchmarks/reliability_training.py losses        losses that are not finite, gradient spikes
    python benchmarks/reliability_training.py same          the same seed twice; scores in and after training
    python benchmarks/reliability_training.py watchdog      six faults and a good run
    python benchmarks/reliability_training.py good          two good runs of some minutes
    python benchmarks/reliability_training.py allocations   allocations that fail, and a limit on the address space
    python benchmarks/reliability_training.py forecast      the memory forecast beside the peak

Models are tiny and children are forked, so that all but `forecast`, `watchdog` and `good` take seconds to two minutes.
`--count` makes a subcommand smaller. A row is: what was planted, how often, how often it went as promised, and notes.
"""

import argparse
import errno
import faulthandler
import json
import math
import os
import pickle
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file, save_file

from dragoman.bundle import Bundle, Card, load_bundle, save_bundle
from dragoman.bundle import folder as bundle_folder
from dragoman.config import PRESETS, Config, TokenizerSettings, TrainSettings, ValidateSettings
from dragoman.data.pairs import InMemoryPairs
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DragomanError
from dragoman.files import checked_manifest, written_folder
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer
from dragoman.training import loop
from dragoman.training.run.checkpoint import RunFolder, save_checkpoint
from dragoman.training.run.log import RunLog
from dragoman.training.run.state import TrainState, ValidationRecord
from dragoman.training.run.tensorboard import Board
from dragoman.training.run.watchdog import WatchdogState
from dragoman.training.step import gradients as gradients_module
from dragoman.training.step import memory as memory_module
from dragoman.training.step.memory import plan_memory
from dragoman.training.step.optimizer import build_optimizer, optimizer_tensors
from dragoman.training.trainer import Trainer
from dragoman.training.verification import _compared, _log_lines

CONFIG = Config(
    model=replace(PRESETS["tiny"], d_model=32, d_ff=48, num_encoder_layers=1, num_decoder_layers=1, dropout=0.2),
    train=TrainSettings(
        batch_tokens=400,
        max_steps=70,
        patience=0,
        precision="float32",
        device="cpu",
        log_every_steps=1,
        warmup_steps=20,
        checkpoint_every_steps=5,
        workers=1,
    ),
    validate=ValidateSettings(every_epochs=0, every_steps=20, metric="loss"),
)


@dataclass(frozen=True)
class Texts:
    """Some hundred sentences of the phrasebook as ids."""

    tokenizers: TokenizerPair
    src: list[list[int]]
    tgt: list[list[int]]
    dev: InMemoryPairs

    @staticmethod
    def of(count: int = 500) -> "Texts":
        pairs = load_phrasebook().generate(seed=1, count=count + 100)
        tokenizer = train_tokenizer(
            TokenizerSettings(vocab_size=500), [text for pair in pairs for text in (pair.src, pair.tgt)]
        )
        src, tgt = (tokenizer.encode_batch([getattr(pair, side) for pair in pairs]) for side in ("src", "tgt"))
        dev = InMemoryPairs(src[count:], tgt[count:])
        return Texts(TokenizerPair(tokenizer, tokenizer, joint=True), src[:count], tgt[:count], dev)


class Quiet(RunLog):
    """A log whose lines for people are kept."""

    def __init__(self, folder: Path) -> None:
        with mock.patch.object(Board, "is_installed", return_value=False):
            super().__init__(folder)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def trainer_in(folder: Path, texts: Texts, config: Config = CONFIG, log: RunLog | None = None) -> Trainer:
    """A trainer of a tiny model in a run's folder; it validates by loss and by how many greedy outputs differ."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config.train.seed)
    size = texts.tokenizers.src.vocab_size
    bundle = Bundle(Transformer(config.model, size, size), texts.tokenizers, config, Card())
    pairs = InMemoryPairs(texts.src, texts.tgt)
    return Trainer(RunFolder(folder), bundle, pairs, texts.dev, lambda model: {}, log or Quiet(folder))


def with_train(config: Config, **changes: Any) -> Config:
    return replace(config, train=replace(config.train, **changes))


def row(what: str, planted: int, right: int, notes: str) -> int:
    """Prints a row; 1 where not everything went as promised."""
    print(f"| {what} | {planted} | {right} | {notes} |")
    return int(right != planted)


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reliability-") as name:
        yield Path(name)


def forked(work: Callable[[], None]) -> int:
    """Runs `work` in a child of this process; the id of the child."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        code = 1
        try:
            work()
            code = 0
        except DragomanError as error:
            sys.stderr.write(f"dragoman: {error}\n")
            code = 2
        finally:
            os._exit(code)
    return child


# Damage


def damage(count: int) -> int:
    """Every damage is found before a forward pass and the error names the file."""
    rng, failed = random.Random(1), 0
    with place() as folder:
        trainer = trainer_in(folder / "run", Texts.of(), with_train(CONFIG, max_steps=3))
        trainer.fit()
        save_bundle(trainer.bundle, folder / "model")
        optimizer = build_optimizer(trainer.model, trainer.settings)
        step = trainer.run.step_folder(3)

        def load_checkpoint() -> None:
            from dragoman.training.run.checkpoint import restore_checkpoint

            restore_checkpoint(step, trainer.model, optimizer)

        loads: Mapping[Path, Callable[[], object]] = {
            step: load_checkpoint,
            folder / "model": lambda: load_bundle(folder / "model", "cpu"),
        }
        kinds = {"bit flipped": count, "truncated": count // 5, "block zeroed": count // 10}
        for target, load in loads.items():
            files = sorted(target.iterdir())
            for kind, times in kinds.items():
                found = harmless = 0
                for index in range(times):
                    path = files[index % len(files)]
                    before = path.read_bytes()
                    after = _damaged(before, kind, rng)
                    harmless += after == before
                    path.write_bytes(after)
                    with mock.patch.object(Transformer, "encode", side_effect=AssertionError):
                        try:
                            load()
                            found += after == before
                        except DragomanError as error:
                            found += path.name in str(error) and "\n" not in str(error)
                    path.write_bytes(before)
                load()
                what = "checkpoint" if target == step else "model"
                notes = f"{len(files)} files" + (f", {harmless} blocks were zero before" if harmless else "")
                failed += row(f"{what}: {kind}", times, found, notes)
    return failed


def _damaged(content: bytes, kind: str, rng: random.Random) -> bytes:
    data = bytearray(content)
    if kind == "truncated":
        return bytes(data[: rng.randrange(len(data))])
    if kind == "bit flipped":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    start = rng.randrange(max(1, len(data) - 4096))
    data[start : start + 4096] = bytes(len(data[start : start + 4096]))
    return bytes(data)


# Hostile models


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def _headers() -> dict[str, bytes]:
    """Bad headers of safetensors files."""

    def file(header: object, data: bytes = b"\0" * 64, length: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def one(**facts: object) -> dict[str, object]:
        return {"decoder.norm.bias": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | facts}

    return {
        "length of 2^63": file(one(), length=1 << 63),
        "length of 2^32": file(one(), length=1 << 32),
        "length beyond the file": file(one(), length=10_000),
        "length 0": file(b""),
        "no JSON": file(b"{" * 64),
        "deep JSON": file(b'{"a":' * 100_000),
        "a list": file([1, 2]),
        "not UTF-8": file(b"\xff\xfe{}"),
        "shape of 10^12": file(one(shape=[10**12])),
        "shapes that overflow": file(one(shape=[2**40, 2**40])),
        "negative shape": file(one(shape=[-16])),
        "fraction as shape": file(one(shape=[1.5])),
        "offsets out of range": file(one(data_offsets=[0, 1 << 40])),
        "offsets turned round": file(one(data_offsets=[64, 0])),
        "negative offsets": file(one(data_offsets=[-64, 0])),
        "a hole": file(one(data_offsets=[32, 96]), b"\0" * 96),
        "overlap": file(one() | {"b": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}}),
        "unknown type": file(one(dtype="F31")),
        "metadata of numbers": file(one() | {"__metadata__": {"a": 1}}),
        "shorter than its length": b"\x01\x02",
    }


def hostile(count: int) -> int:
    """Nothing is executed, nothing crashes, one clear line, within a second and 200 MB."""
    right, slowest, largest, cases = 0, 0.0, 0, 0
    with place() as folder:
        texts = Texts.of(100)
        executed = folder / "executed"
        small = replace(CONFIG.model, d_model=16, d_ff=16)
        size = texts.tokenizers.src.vocab_size
        bundle = Bundle(Transformer(small, size, size), texts.tokenizers, replace(CONFIG, model=small), Card())
        save_bundle(bundle, folder / "good")
        load_bundle(folder / "good", "cpu")
        for name, change in _hostile_changes(executed).items():
            target = folder / "model"
            shutil.rmtree(target, ignore_errors=True)
            with written_folder(target, {"format": 1}) as copy:
                for path in (folder / "good").iterdir():
                    if path.name != "manifest.json":
                        shutil.copyfile(path, copy / path.name)
                change(copy)
            if name.startswith("manifest: "):
                _hostile_manifest(target, name)
            cases += 1
            report = folder / "report"
            report.unlink(missing_ok=True)
            began = time.perf_counter()
            child = forked(lambda report=report, target=target: _loaded(target, report))  # type: ignore[misc]
            _, status = os.waitpid(child, 0)
            seconds = time.perf_counter() - began
            facts = json.loads(report.read_text()) if report.exists() else {}
            slowest, largest = max(slowest, seconds), max(largest, facts.get("bytes", 0))
            good = status == 0 and (facts.get("one_line") or "beside" in name) and not executed.exists()
            good = good and seconds <= 1 and facts["bytes"] <= 200e6
            right += bool(good)
            if not good:
                print(f"{name}: status {status}, {seconds:.2f} s, {facts}", file=sys.stderr)
    return row("hostile models", cases, right, f"at most {slowest:.2f} s and {largest / 1e6:.0f} MB; nothing executed")


def _loaded(target: Path, report: Path) -> None:
    line = ""
    try:
        load_bundle(target, "cpu")
    except DragomanError as error:
        line = str(error)
    peak = next(int(text.split()[1]) for text in Path("/proc/self/status").read_text().split("\n") if "VmHWM" in text)
    now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report.write_text(
        json.dumps(
            {"one_line": bool(line) and "\n" not in line, "line": line, "bytes": 1024 * (min(peak, now) - _BASE)}
        )
    )


_BASE = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _hostile_changes(executed: Path) -> dict[str, Callable[[Path], object]]:
    evil = pickle.dumps(_Evil(executed))

    def weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            tensors = load_file(folder / "model.safetensors")
            change(tensors)
            save_file(tensors, folder / "model.safetensors")

        return apply

    def config(*changes: str) -> Callable[[Path], object]:
        def apply(folder: Path) -> None:
            text = (folder / "config.toml").read_text()
            for old, new in zip(changes[::2], changes[1::2], strict=True):
                text = re.sub(old, new, text, count=1)
            (folder / "config.toml").write_text(text)

        return apply

    def tokenizer(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
        def apply(folder: Path) -> None:
            document = json.loads((folder / "tokenizer.json").read_text())
            change(document)
            (folder / "tokenizer.json").write_text(json.dumps(document))

        return apply

    split = {"type": "Split", "pattern": {"Regex": "(a|a)*" * 30 + "$"}, "behavior": "Isolated", "invert": False}
    return {
        "a pickle beside the weights": lambda folder: (folder / "pytorch_model.bin").write_bytes(evil),
        "a pickle as model.safetensors": lambda folder: (folder / "model.safetensors").write_bytes(evil),
        "a pickle as config.toml": lambda folder: (folder / "config.toml").write_bytes(evil),
        "a pickle as tokenizer.json": lambda folder: (folder / "tokenizer.json").write_bytes(evil),
        "a pickle as card.json": lambda folder: (folder / "card.json").write_bytes(evil),
        **{
            f"header: {name}": (lambda folder, content=content: (folder / "model.safetensors").write_bytes(content))  # type: ignore[misc]
            for name, content in _headers().items()
        },
        "NaN weights": weights(lambda tensors: tensors["decoder.norm.bias"].fill_(math.nan)),  # type: ignore[arg-type]
        "one infinite weight": weights(lambda tensors: tensors["decoder.norm.bias"][3:4].fill_(math.inf)),  # type: ignore[arg-type]
        "d_model of 10^12": config(r"d_model = \d+", "d_model = 1000000000000"),
        "d_ff of 10^12": config(r"d_ff = \d+", "d_ff = 1000000000000"),
        "10^9 layers": config(r"num_encoder_layers = \d+", "num_encoder_layers = 1000000000"),
        "10^12 positions": config(
            r'positions = "sinusoidal"',
            'positions = "learned"',
            r"max_positions = \d+",
            "max_positions = 1000000000000",
        ),
        "deep config.toml": lambda folder: (folder / "config.toml").write_text("a = " + "[" * 100_000),
        "hostile pattern": tokenizer(lambda document: document.update(pre_tokenizer=split)),
        "hostile normaliser": tokenizer(
            lambda document: document.update(
                normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b" * 1000}
            )
        ),
        "hostile decoder": tokenizer(
            lambda document: document.update(decoder={"type": "Replace", "pattern": {"Regex": "(.*)*"}, "content": "b"})
        ),
        "added token with a pattern": tokenizer(
            lambda document: document.update(added_tokens=[{"id": 0, "content": "(a+)+$", "special": True}])
        ),
        "deep tokenizer.json": lambda folder: (folder / "tokenizer.json").write_text("[" * 100_000),
        "manifest: ../../escape": lambda folder: None,
        "manifest: /etc/passwd": lambda folder: None,
        "manifest: ..": lambda folder: None,
        "manifest: a name with NUL": lambda folder: None,
        "manifest: size of 10^30": lambda folder: None,
    }


def _hostile_manifest(folder: Path, name: str) -> None:
    from dragoman.files import _digest

    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    key = {"manifest: a name with NUL": "a\0b", "manifest: size of 10^30": "model.safetensors"}.get(name, name[10:])
    manifest["files"][key] = {"bytes": 10**30, "sha256": "0" * 64}
    manifest["sha256"] = _digest(manifest)
    path.write_text(json.dumps(manifest))


# Kills


def kills(count: int) -> int:
    """Weights, state and log after 70 steps are the same whatever happened in between."""
    rng = random.Random(2)
    failed = 0
    with place() as folder:
        texts = Texts.of()

        def train(name: str, until: int = 70) -> Callable[[], None]:
            config = with_train(CONFIG, max_steps=until)
            return lambda: print(trainer_in(folder / name, texts, config).fit(), file=sys.stderr)

        os.waitpid(forked(train("straight")), 0)
        for part in (40, 70):
            os.waitpid(forked(train("parts", part)), 0)
        killed = 0
        deadline = time.monotonic() + 120
        while killed < count and time.monotonic() < deadline:
            child = forked(train("killed"))
            time.sleep(rng.uniform(0.15, 0.6))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if status == 0:
                shutil.rmtree(folder / "killed")  # it was faster: from the start again
                killed = 0
            else:
                killed += 1
        os.waitpid(forked(train("killed")), 0)
        straight = RunFolder(folder / "straight").step_folder(70)
        for name, planted in (("parts", 1), ("killed", killed)):
            tensors, differences = _compared(straight, RunFolder(folder / name).step_folder(70))
            lines = [_log_lines(folder / each / "log.jsonl", 0, 70) for each in ("straight", name)]
            # A run that stopped at 40 validated there once more than scheduled, as it must.
            same = not [each for each in differences if name == "killed" or not each.startswith("state")]
            same = same and [e for e in lines[0] if e["event"] == "train"] == [
                e for e in lines[1] if e["event"] == "train"
            ]
            if not same:
                print(differences, file=sys.stderr)
            what = "70 steps = 40 + 30" if name == "parts" else f"70 steps with {killed} SIGKILLs"
            failed += row(
                what, planted, planted if same else 0, f"{tensors} tensors and the loss of each step bit-equal"
            )
    return failed


_TOLD = struct.Struct("<qd")
"""A step, negative when its checkpoint is begun, and the time."""


def saving(count: int) -> int:
    """Each kill leaves a whole checkpoint, at most one interval back, of one step only; leftovers go.

    It comes at some moment of the second saving, which takes about as long as the first.
    """
    rng = random.Random(3)
    resumed = in_saving = 0
    with place() as folder:
        texts = Texts.of(200)
        config = with_train(CONFIG, max_steps=10**6, checkpoint_every_steps=1, log_every_steps=10**6)
        config = replace(config, validate=replace(config.validate, every_steps=10**6))
        newest = 0
        for _ in range(count):
            read, write = os.pipe()

            def work(write: int = write) -> None:
                trainer = trainer_in(folder / "run", texts, config)
                save, remove = loop.save_checkpoint, RunFolder.remove_all_but

                def begun(*arguments: Any) -> None:
                    os.write(write, _TOLD.pack(-trainer.state.step, time.monotonic()))
                    save(*arguments)

                def saved(of: RunFolder, steps: Any) -> None:
                    os.write(write, _TOLD.pack(trainer.state.step, time.monotonic()))
                    remove(of, steps)

                with (
                    mock.patch.object(loop, "save_checkpoint", begun),
                    mock.patch.object(RunFolder, "remove_all_but", saved),
                ):
                    trainer.fit()

            child = forked(work)
            os.close(write)
            told = [_TOLD.unpack(os.read(read, _TOLD.size)) for _ in ("begun", "saved", "begun")]
            time.sleep(rng.uniform(0.0, 1.2) * (told[1][1] - told[0][1]))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            while more := os.read(read, _TOLD.size):
                told.append(_TOLD.unpack(more))
            os.close(read)
            done = max(int(step) for step, _ in told)
            run = RunFolder(folder / "run")
            in_saving += any(path.name.startswith(".writing-step") for path in run.checkpoints.iterdir())
            newest = next((step for step in reversed(run.steps()) if _is_whole(run.step_folder(step))), -1)
            resumed += newest >= done and _is_of_one_step(run.step_folder(newest), newest)
        trainer = trainer_in(folder / "run", texts, with_train(config, max_steps=newest + 1))
        trainer.fit()
        left = list((folder / "run").rglob(".writing-*"))
        resumed -= bool(left)
    return row("SIGKILL while saving", count, resumed, f"{in_saving} in the middle of writing; nothing left over")


def _is_whole(folder: Path) -> bool:
    with suppress(DragomanError):
        checked_manifest(folder)
        return True
    return False


def _is_of_one_step(folder: Path, step: int) -> bool:
    moments = load_arrays(folder / "optimizer.safetensors")
    steps = {float(value) for name, value in moments.items() if name.endswith(":step")}
    return steps == {float(step)} and json.loads((folder / "state.json").read_text())["step"] == step


# Disks


def disk(count: int) -> int:
    """At every call that writes: the old checkpoint stays whole, one clear line, and nothing half written remains."""
    failed = 0
    with place() as folder:
        texts = Texts.of(100)
        trainer = trainer_in(folder / "run", texts, with_train(CONFIG, max_steps=2))
        trainer.fit()
        optimizer = build_optimizer(trainer.model, trainer.settings)

        def save(step: int) -> None:
            trainer.log.progress(
                dict.fromkeys(("epoch", "loss", "perplexity", "learning_rate", "tokens_per_second"), 0)
                | {"step": step},
                None,
            )
            moments = optimizer_tensors(trainer.model, optimizer)
            state = TrainState(step=step, validations=[ValidationRecord(step, 0.0)])
            save_checkpoint(trainer.run, trainer.bundle, moments, state)

        sites: list[str] = []
        for new in (True, False):
            with _failing(lambda name: sites.append(name)):
                save(3 if new else 2)
            shutil.rmtree(trainer.run.step_folder(3), ignore_errors=True)
            for code in (errno.ENOSPC, errno.EIO, errno.EROFS):
                right = 0
                for index in range(len(sites)):
                    calls = [0]

                    def fail(name: str, calls: list[int] = calls, index: int = index, code: int = code) -> None:
                        calls[0] += 1
                        if calls[0] == index + 1:
                            raise OSError(code, os.strerror(code))

                    line = ""
                    try:
                        with _failing(fail):
                            save(3 if new else 2)
                    except DragomanError as error:
                        line = str(error)
                    except OSError as error:
                        print(f"{sites[index]}: {error!r}", file=sys.stderr)
                    trainer.run.tidy()
                    whole = _is_whole(trainer.run.step_folder(2)) and all(
                        map(_is_whole, map(trainer.run.step_folder, trainer.run.steps()))
                    )
                    good = whole and line and "\n" not in line and not list((folder / "run").rglob(".writing-*"))
                    right += bool(good)
                    if not good:
                        print(
                            f"{sites[index]} ({index}) {errno.errorcode[code]}: whole {whole}, {line!r}",
                            file=sys.stderr,
                        )
                    shutil.rmtree(trainer.run.step_folder(3), ignore_errors=True)
                names = ", ".join(f"{sites.count(name)} {name}" for name in dict.fromkeys(sites))
                what = "a new step" if new else "a step written again"
                failed += row(f"{errno.errorcode[code]}, {what}", len(sites), right, names)
            sites.clear()
    return failed


@contextmanager
def _failing(before: Callable[[str], object]) -> Iterator[None]:
    """Calls `before` with a name ahead of every call that changes the disk while a checkpoint is written."""
    library = save_file

    def told(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name != "open" or (arguments[1:] and arguments[1] in ("a", "w", "wb", "ab")):
                before(name)
            return original(*arguments, **options)

        return call

    def save(tensors: Any, path: Path) -> None:
        try:
            before("safetensors")
        except OSError as error:  # as the library says it, half of the file being there
            path.write_bytes(b"half")
            raise SafetensorError(
                f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            ) from None
        library(tensors, path)

    with mock.patch.object(os, "fsync", told("fsync", os.fsync)), mock.patch.object(bundle_folder, "save_file", save):
        patches = [
            mock.patch.object(Path, name, told(name, getattr(Path, name)))
            for name in ("rename", "replace", "mkdir", "chmod", "open")
        ]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


# Losses that are not finite


def losses(count: int) -> int:
    """A step with a loss that is not finite, or a gradient 10^6 times as large, is skipped and counted."""
    failed = 0
    with place() as folder:
        texts = Texts.of()
        rng = random.Random(4)
        for kind, factor in (("NaN loss", math.nan), ("gradient times 10^6", 1e6)):
            steps = set(rng.sample(range(25, 70, 2), min(count, 10)))
            trainer = trainer_in(folder / kind.replace(" ", ""), texts)
            with _planted(trainer, steps, factor):
                trainer.fit()
            watchdog = trainer.state.watchdog
            skipped = watchdog.not_finite if factor != factor else watchdog.spikes
            finite = all(bool(parameter.isfinite().all()) for parameter in trainer.model.parameters())
            for step in trainer.run.steps():
                load_bundle(trainer.run.step_folder(step), "cpu")
            failed += row(kind, len(steps), skipped if finite else 0, "skipped and counted; all checkpoints finite")
        trainer = trainer_in(folder / "back", texts)
        with _planted(trainer, set(range(33, 38)), math.nan):
            trainer.fit()
        went = any("goes back to step 30" in line for line in trainer.log.said)  # type: ignore[attr-defined]
        half = trainer.state.watchdog.rate_factor == 0.5 and trainer.state.step == 70
        failed += row("five NaN in a row", 1, int(went and half), "back to step 30, half the rate, 70 steps taken")
        trainer = trainer_in(folder / "stop", texts)
        code = ""
        with _planted(trainer, set(range(33, 70)), math.nan, again=True):
            try:
                trainer.fit()
            except DragomanError as error:
                code = str(error)
        whole = all(_is_whole(trainer.run.step_folder(step)) for step in trainer.run.steps())
        failed += row("NaN from step 33 on", 1, int("again" in code and whole), f"ends: {code[:60]}...")
    return failed


@contextmanager
def _planted(trainer: Trainer, steps: set[int], factor: float, again: bool = False) -> Iterator[None]:
    """Multiplies loss and gradient of some steps, each once or `again`."""
    original, left = gradients_module.Gradients.compute, set(steps)

    def compute(self: Any, batches: Any, draws: Any, *rest: Any) -> torch.Tensor:
        total = original(self, batches, draws, *rest)
        if draws[1] in left:
            if not again:
                left.discard(draws[1])
            for parameter in trainer.model.parameters():
                if parameter.grad is not None:
                    parameter.grad *= factor
            total = total * factor if factor != factor else total
        return total

    with mock.patch.object(gradients_module.Gradients, "compute", compute):
        yield


# The same twice


def same(count: int) -> int:
    """The same seed gives the same weights; BLEU while training is that of `translate` and `evaluate` afterwards."""
    failed = 0
    with place() as folder:
        texts = Texts.of()
        runs = []
        for name in ("one", "two"):
            run = trainer_in(folder / name, texts, with_train(CONFIG, max_steps=count, checkpoint_every_steps=50))
            run.fit()
            runs.append(run)
        tensors, differences = _compared(*(run.run.step_folder(count) for run in runs))
        failed += row(f"the same seed twice, {count} steps", 1, int(not differences), f"{tensors} tensors bit-equal")
        failed += row("BLEU in training and after", 1, *_scores_agree(folder))
    return failed


def _scores_agree(folder: Path) -> tuple[int, str]:
    pairs = list(load_phrasebook().generate(seed=5, count=700))
    for name, part in (("train", pairs[:600]), ("dev", pairs[600:])):
        (folder / f"{name}.en-de.tsv").write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in part))
        (folder / f"{name}.en").write_text("".join(f"{pair.src}\n" for pair in part))
        (folder / f"{name}.de").write_text("".join(f"{pair.tgt}\n" for pair in part))
    program = [sys.executable, "-m", "dragoman"]
    settings = (
        "--model.preset=custom --model.d-model=64 --model.d-ff=128 --tokenizer.vocab-size=600 --train.max-steps=150"
    )
    settings += (
        " --train.warmup-steps=50 --train.learning-rate=0.005 --validate.every-steps=150 --validate.every-epochs=0"
    )
    settings += " --validate.beam-size=4 --inference.beam-size=4 --train.average-last=0 --train.patience=0"
    data = ["--data", str(folder / "train.en-de.tsv"), f"--data.dev={folder / 'dev.en-de.tsv'}"]
    out = folder / "run"
    subprocess.run([*program, "train", *data, "--out", str(out), *settings.split()], check=True, capture_output=True)
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().split("\n") if line]
    inside = [event for event in events if event["event"] == "validation"][-1]["bleu"]
    with (folder / "dev.en").open() as src, (folder / "hyp.de").open("w") as hyp:
        subprocess.run([*program, "translate", str(out)], stdin=src, stdout=hyp, check=True, stderr=subprocess.DEVNULL)
    from dragoman.evaluation.metrics import bleu

    hypotheses, references = ((folder / name).read_text().split("\n")[:-1] for name in ("hyp.de", "dev.de"))
    outside = bleu(hypotheses, references, "13a").value
    return int(inside == outside), f"{inside} and {outside}"


# The watchdog


def watchdog(count: int, only: str = "") -> int:
    """Each fault is named, and with `only` that one; a good run hears nothing."""
    texts, failed = Texts.of(3000), 0
    few = replace(texts, src=texts.src[:200], tgt=texts.tgt[:200])
    mixed = random.Random(6).sample(texts.tgt, len(texts.tgt))
    config = replace(
        CONFIG,
        model=replace(PRESETS["tiny"], d_model=64, d_ff=128, num_encoder_layers=2, num_decoder_layers=2, dropout=0.1),
        validate=replace(CONFIG.validate, every_steps=max(20, count // 8)),
    )
    config = with_train(
        config,
        batch_tokens=1000,
        max_steps=count,
        warmup_steps=count // 6,
        learning_rate=0.004,
        checkpoint_every_steps=0,
    )
    cases: dict[str, tuple[Texts, Config, float]] = {
        "": (texts, config, 1.0),
        "learning rate too high": (texts, with_train(config, learning_rate=0.4), 1.0),
        "ignores the source": (replace(texts, tgt=mixed), config, 1.0),
        "same output": (replace(texts, tgt=[texts.tgt[0]] * len(texts.tgt)), config, 1.0),
        "over-fitting": (
            few,
            with_train(replace(config, model=replace(config.model, dropout=0.0)), warmup_steps=50),
            1.0,
        ),
        "not finite": (texts, with_train(config, max_steps=60), math.nan),
        "gradient spike": (texts, with_train(config, max_steps=60), 1e6),
    }
    with place() as folder:
        for name, (data, settings, factor) in cases.items():
            if only not in ("", name):
                continue
            trainer = trainer_in(folder / (name or "good"), data, settings)
            trainer.validate = _distinct(data)
            with _planted(trainer, set() if factor == 1.0 else {40}, factor):
                trainer.fit()
            events = [
                json.loads(line) for line in (folder / (name or "good") / "log.jsonl").read_text().split("\n") if line
            ]
            found = list(dict.fromkeys(event["name"] for event in events if event["event"] == "watchdog"))
            right = name in found if name else not found
            failed += row(
                f"watchdog: {name or 'a good run'}", 1, int(right), f"{settings.train.max_steps} steps; said: {found}"
            )
            print(
                [
                    (m.step, round(m.dev_loss, 2), round(m.shuffled_loss, 2), round(m.train_loss, 2), m.distinct)
                    for m in trainer.state.watchdog.measured
                ],
                file=sys.stderr,
            )
    return failed


def good(minutes: int) -> int:
    """On runs that go well the watchdog is silent; how large the largest gradient is beside the median before it."""
    configs = Path(__file__).parent.parent / "configs"
    runs = {"demo": ["demo", f"--minutes={minutes}"]}
    if "DRAGOMAN_DATA" in os.environ:
        multi30k = str(configs / "multi30k_en_de.toml")
        runs["Multi30k"] = ["train", multi30k, f"--train.max-minutes={minutes}", "--validate.max-sentences=100"]
    failed = 0
    with place() as folder:
        for name, command in runs.items():
            arguments = [sys.executable, __file__, "_good_child", "--case"]
            arguments += [json.dumps([*command, f"--out={folder / name}", "--train.patience=0"])]
            output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            norms = json.loads(output.split("\n")[-2])
            lines = (folder / name / "log.jsonl").read_text().split("\n")
            found = [event["name"] for event in map(json.loads, filter(None, lines)) if event["event"] == "watchdog"]
            validated = sum('"validation"' in line for line in lines)
            notes = (
                f"{len(norms)} steps, {validated} validations; said: {found}; largest gradient {max(norms):.1f} times"
            )
            failed += row(f"watchdog: {name}, {minutes} minutes", 1, int(not found), f"{notes} the median before it")
            print(name, [round(norm, 1) for norm in sorted(norms)[-10:]], file=sys.stderr)
    return failed


def good_child(command: list[str]) -> int:
    from statistics import median

    from dragoman.cli.main import run_command as dragoman

    original, times = WatchdogState.judge_step, []

    def judge_step(self: WatchdogState, step: int, loss: float, norm: float) -> Any:
        if len(self.norms) >= 16:
            times.append(norm / median(self.norms))
        return original(self, step, loss, norm)

    with mock.patch.object(WatchdogState, "judge_step", judge_step):
        code = dragoman(command)
    print(json.dumps(times))
    return code


def _distinct(texts: Texts) -> Callable[[Transformer], Mapping[str, float]]:
    from dragoman.config import InferenceSettings
    from dragoman.inference.translator import Translator

    sources = [texts.tokenizers.src.detokenize(texts.dev.src_ids(index).tolist()) for index in range(50)]

    def validate(model: Transformer) -> Mapping[str, float]:
        found = Translator.from_model(model, texts.tokenizers, InferenceSettings(beam_size=1), 64).translate(sources)
        return {"distinct": len(set(found)) / len(set(sources))}

    return validate


# Memory


def allocations(count: int) -> int:
    """Where allocations fail the run ends with the same losses; a limit on the address space is survived too."""
    failed = 0
    with place() as folder:
        texts = Texts.of()
        whole = trainer_in(folder / "whole", texts, with_train(CONFIG, max_steps=40))
        whole.fit()
        straight = _losses(folder / "whole")
        original, calls = gradients_module.losses, [0]

        def limited(model: Transformer, batch: Any, *rest: Any) -> Any:
            calls[0] += 1
            if calls[0] > 30 and torch.is_grad_enabled() and len(batch.src_lengths) > 6:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
            return original(model, batch, *rest)

        halved = trainer_in(folder / "halved", texts, with_train(CONFIG, max_steps=40))
        with mock.patch.object(gradients_module, "losses", limited):
            halved.fit()
        apart = max(abs(one - other) / one for one, other in zip(straight, _losses(folder / "halved"), strict=True))
        good = halved.state.parts > 1 and apart < 1e-4
        failed += row(
            "allocations fail from some step on",
            1,
            int(good),
            f"{halved.state.parts} parts, losses within {apart:.1e}, dropout on",
        )
        failed += row("RLIMIT_AS", 1, *_limited_run(folder, texts, count))
    return failed


def _limited_run(folder: Path, texts: Texts, megabytes: int) -> tuple[int, str]:
    """A step of 6,000 tokens in one micro-batch, and the same with little address space."""
    long = replace(texts, src=[(row * 12)[:120] for row in texts.src], tgt=[(row * 12)[:120] for row in texts.tgt])
    config = with_train(CONFIG, max_steps=3, batch_tokens=6_000, micro_batch_tokens=6_000, checkpoint_every_steps=0)
    config = replace(config, model=replace(config.model, d_model=128, d_ff=512, num_heads=4))
    for name, limit in (("roomy", 0), ("tight", megabytes << 20)):

        def work(name: str = name, limit: int = limit) -> None:
            trainer = trainer_in(folder / name, long, config)
            if limit:
                pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (pages + limit, resource.RLIM_INFINITY))
                memory_module.free_bytes = lambda device: None  # only the failure itself tells
            trainer.fit()
            (folder / name / "parts").write_text(str(trainer.state.parts))

        _, status = os.waitpid(forked(work), 0)
        if status:
            return 0, f"{name}: status {status}"
    one, other = _losses(folder / "roomy"), _losses(folder / "tight")
    apart = max(abs(a - b) / a for a, b in zip(one, other, strict=True))
    parts = int((folder / "tight" / "parts").read_text())
    return int(parts > 1 and apart < 1e-4), f"{megabytes} MB more: {parts} parts, losses within {apart:.1e}"


def _losses(run: Path) -> list[float]:
    events = (json.loads(line) for line in (run / "log.jsonl").read_text().split("\n") if line)
    return [event["loss"] for event in events if event["event"] == "train"]


_FORECASTS = (
    ("tiny", 4000, 4096, "bfloat16", 20, 1),
    ("tiny", 4000, 4096, "float32", 60, 1),
    ("tiny", 16000, 2048, "float32", 20, 2),
    ("small", 8000, 4096, "bfloat16", 20, 1),
    ("small", 16000, 4096, "float32", 40, 1),
    ("base", 16000, 2048, "float32", 20, 1),
)


def forecast(count: int) -> int:
    """The forecast is within 20 % of the peak of a process that trains `count` steps."""
    failed = 0
    for case in _FORECASTS:
        arguments = [sys.executable, __file__, "_forecast_child", "--count", str(count), "--case", json.dumps(case)]
        output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        said, peak = json.loads(output.split("\n")[-2])
        error = said / peak - 1
        failed += row(
            "forecast: " + " ".join(map(str, case)),
            1,
            int(abs(error) <= 0.2),
            f"{said / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, {error:+.0%}",
        )
    return failed


def forecast_child(count: int, case: list[Any]) -> int:
    from dragoman.data.stream import BatchStream
    from dragoman.devices.device import keep_freed_memory

    preset, vocab, batch_tokens, precision, mean, workers = case
    rng = np.random.default_rng(1)
    lengths = np.minimum(127, rng.gamma(3, mean / 3, 4 * batch_tokens // mean).astype(int) + 1)
    others = np.clip((lengths * rng.uniform(0.8, 1.25, len(lengths))).astype(int), 1, 127)
    pairs = InMemoryPairs(*([rng.integers(4, vocab, size).tolist() for size in sizes] for sizes in (lengths, others)))
    settings = TrainSettings(precision=precision, batch_tokens=batch_tokens, device="cpu", workers=workers)
    model = Transformer(PRESETS[preset], vocab, vocab).train()
    keep_freed_memory()
    before = _status("VmRSS")
    optimizer = build_optimizer(model, settings)
    with gradients_module.Gradients(model, settings) as gradients:
        plan = plan_memory(gradients, settings, pairs)
        with BatchStream(pairs, batch_tokens, plan.micro_batch_tokens, 1) as stream:
            for number in range(count):
                step = next(stream)
                gradients.compute(step.batches, (1, number), step.num_tgt_tokens)
                optimizer.step()
                optimizer.zero_grad()
    print(json.dumps([plan.need_bytes, _status("VmHWM") - before]))
    return 0


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


_SIZES: dict[str, tuple[Callable[..., int], int]] = {
    "damage": (damage, 1000),
    "hostile": (hostile, 1),
    "kills": (kills, 7),
    "saving": (saving, 200),
    "disk": (disk, 1),
    "losses": (losses, 10),
    "same": (same, 200),
    "watchdog": (watchdog, 480),
    "good": (good, 4),
    "allocations": (allocations, 80),
    "forecast": (forecast, 6),
}


def run_command() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*_SIZES, "_forecast_child", "_good_child"])
    parser.add_argument("--count", type=int)
    parser.add_argument("--case", default="", help="of `watchdog`: one fault alone")
    given = parser.parse_args()
    if given.what == "_forecast_child":
        return forecast_child(given.count, json.loads(given.case))
    if given.what == "_good_child":
        return good_child(json.loads(given.case))
    work, size = _SIZES[given.what]
    began = time.perf_counter()
    options = (given.case,) if given.what == "watchdog" else ()
    failed = work(given.count or size, *options)
    print(f"{given.what}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(run_command())
