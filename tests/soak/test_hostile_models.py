"""Hostile model folders: nothing is executed, nothing crashes, and one line within a second and 200 MB."""

import json
import math
import os
import pickle
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.bundle import Model
from dragoman.errors import DragomanError
from dragoman.files import hash_json, write_folder
from tests.soak.conftest import Report
from tests.soak.processes import Cost, exit_status, fork
from tests.soak.runs import make_session, phrasebook_texts

MOST_SECONDS, MOST_BYTES = 1.0, 200e6
Change = Callable[[Path], object]


class Executed:
    """Unpickling an instance creates a file in the current folder."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch executed",)


def write(name: str, content: str | bytes) -> Change:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def weights(change: Callable[[torch.Tensor], object]) -> Change:
    """Change the bias of the decoder's last norm."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors["decoder.norm.bias"])
        save_file(tensors, folder / "model.safetensors")

    return apply


def config(**values: str) -> Change:
    def apply(folder: Path) -> None:
        text = (folder / "config.toml").read_text()
        for name, value in values.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, count=1, flags=re.MULTILINE)
        (folder / "config.toml").write_text(text)

    return apply


def tokenizer(**entries: object) -> Change:
    def apply(folder: Path) -> None:
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return apply


def manifest(name: str) -> Change:
    """Add an entry of 10^30 bytes to a finished folder's manifest and sign it."""

    def apply(folder: Path) -> None:
        path = folder / "manifest.json"
        content = json.loads(path.read_text())
        del content["sha256"]
        content["files"][name] = {"bytes": 10**30, "sha256": "0" * 64}
        content["sha256"] = hash_json(content)
        path.write_text(json.dumps(content))

    return apply


def safetensors_file(header: object, data: bytes = b"\0" * 64, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one_tensor(**facts: object) -> dict[str, object]:
    return {"decoder.norm.bias": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | facts}


PICKLE = pickle.dumps(Executed())
HEADERS = {
    "length of 2^63": safetensors_file(one_tensor(), length=1 << 63),
    "length of 2^32": safetensors_file(one_tensor(), length=1 << 32),
    "length beyond the file": safetensors_file(one_tensor(), length=10_000),
    "length 0": safetensors_file(b""),
    "no JSON": safetensors_file(b"{" * 64),
    "deep JSON": safetensors_file(b'{"a":' * 100_000),
    "a list": safetensors_file([1, 2]),
    "not UTF-8": safetensors_file(b"\xff\xfe{}"),
    "shape of 10^12": safetensors_file(one_tensor(shape=[10**12])),
    "shapes that overflow": safetensors_file(one_tensor(shape=[2**40, 2**40])),
    "negative shape": safetensors_file(one_tensor(shape=[-16])),
    "fraction as shape": safetensors_file(one_tensor(shape=[1.5])),
    "offsets out of range": safetensors_file(one_tensor(data_offsets=[0, 1 << 40])),
    "reversed offsets": safetensors_file(one_tensor(data_offsets=[64, 0])),
    "negative offsets": safetensors_file(one_tensor(data_offsets=[-64, 0])),
    "a gap": safetensors_file(one_tensor(data_offsets=[32, 96]), b"\0" * 96),
    "overlap": safetensors_file(one_tensor() | {"b": one_tensor()["decoder.norm.bias"]}),
    "unknown type": safetensors_file(one_tensor(dtype="F31")),
    "metadata of numbers": safetensors_file(one_tensor() | {"__metadata__": {"a": 1}}),
    "shorter than its length": b"\x01\x02",
}
SLOW_SPLIT = {"type": "Split", "pattern": {"Regex": "(a|a)*" * 30 + "$"}, "behavior": "Isolated", "invert": False}
CHANGES: dict[str, Change] = {
    "a pickle beside the weights": write("pytorch_model.bin", PICKLE),
    **{
        f"a pickle as {name}": write(name, PICKLE)
        for name in ("model.safetensors", "config.toml", "tokenizer.json", "card.json")
    },
    **{f"header: {name}": write("model.safetensors", content) for name, content in HEADERS.items()},
    "NaN weights": weights(lambda bias: bias.fill_(math.nan)),
    "one infinite weight": weights(lambda bias: bias[3:4].fill_(math.inf)),
    "d_model of 10^12": config(d_model="1000000000000"),
    "d_ff of 10^12": config(d_ff="1000000000000"),
    "10^9 layers": config(num_encoder_layers="1000000000"),
    "10^12 positions": config(positions='"learned"', max_positions="1000000000000"),
    "deep config.toml": write("config.toml", "a = " + "[" * 100_000),
    "hostile pattern": tokenizer(pre_tokenizer=SLOW_SPLIT),
    "hostile normaliser": tokenizer(
        normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b" * 1000}
    ),
    "hostile decoder": tokenizer(decoder={"type": "Replace", "pattern": {"Regex": "(.*)*"}, "content": "b"}),
    "added token with a pattern": tokenizer(added_tokens=[{"id": 0, "content": "(a+)+$", "special": True}]),
    "deep tokenizer.json": write("tokenizer.json", "[" * 100_000),
}
"""Changed before the manifest is written, so that it is right."""

MANIFESTS = {
    "../../escape": "../../escape",
    "/etc/passwd": "/etc/passwd",
    "..": "..",
    "a name with NUL": "a\0b",
    "size of 10^30": "model.safetensors",
}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    make_session(tmp_path / "run", phrasebook_texts(100)).model.save(tmp_path / "good")
    Model.load(tmp_path / "good", "cpu")
    return tmp_path / "good"


def test_hostile_models_get_one_line(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    monkeypatch.chdir(tmp_path)
    slowest, largest, broken = 0.0, 0.0, []
    for name in [*CHANGES, *MANIFESTS]:
        target = tmp_path / "model"
        shutil.rmtree(target, ignore_errors=True)
        with write_folder(target, {"format": 1}) as copy:
            for path in good.iterdir():
                if path.name != "manifest.json":
                    shutil.copyfile(path, copy / path.name)
            if name in CHANGES:
                CHANGES[name](copy)
        if name in MANIFESTS:
            manifest(MANIFESTS[name])(target)
        with Cost() as cost:
            status = exit_status(fork(lambda target=target: load_and_report(target)))  # type: ignore[misc]
        line, peak_bytes = json.loads(Path("report").read_text())
        slowest, largest = max(slowest, cost.seconds), max(largest, peak_bytes)
        refused = bool(line) and "\n" not in line
        if (
            status
            or not (refused or "beside" in name)
            or Path("executed").exists()
            or cost.seconds > MOST_SECONDS
            or peak_bytes > MOST_BYTES
        ):
            broken.append(f"{name}: status {status}, {cost.seconds:.2f} s, {peak_bytes / 1e6:.0f} MB, {line!r}")
    figures = f"at most {slowest:.2f} s and {largest / 1e6:.0f} MB; nothing executed"
    report("hostile models", len(CHANGES) + len(MANIFESTS), broken, figures)


def load_and_report(target: Path) -> None:
    line = ""
    with Cost() as cost:
        try:
            Model.load(target, "cpu")
        except DragomanError as error:
            line = str(error)
    Path("report").write_text(json.dumps([line, cost.peak_bytes]))
