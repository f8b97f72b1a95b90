"""Every kind of model translates the same in CTranslate2, and the example in its README runs."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Card, Model, Weights
from dragoman.config import Config, ModelSettings, TokenizerSettings
from dragoman.errors import ModelError
from dragoman.exchange.ctranslate2_export import export_ctranslate2
from dragoman.exchange.marian import import_marian
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import train_tokenizers
from tests.contract.ctranslate2_agreement import agreement_of

pytest.importorskip("ctranslate2")

TEXTS = [f"How are {a}{b}? The {b}{a} </s> house." for a in "abcdef" for b in "ghijklm"] * 3


def _bundle(tokenizer: dict[str, Any], **model: Any) -> Model:
    torch.manual_seed(1)
    settings = TokenizerSettings(**({"vocab_size": 300} | tokenizer))
    pair = train_tokenizers(settings, TEXTS, TEXTS[:40])
    shape = {"preset": "custom", "d_model": 32, "d_ff": 48, "num_heads": 4, "num_encoder_layers": 2, "dropout": 0.0}
    config = Config(tokenizer=settings, model=ModelSettings(**(shape | {"num_decoder_layers": 1} | model)))
    network = Transformer(config.model, pair.src.vocab_size, pair.tgt.vocab_size)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0, 0.2)
    return Model(Weights.of(network.eval()), pair, config, Card(src_lang="en", tgt_lang="de"))


@pytest.mark.parametrize(
    ("tokenizer", "model"),
    [
        ({}, {}),
        ({"byte_fallback": True}, {"norm_first": False, "activation": "gelu"}),
        ({"kind": "unigram"}, {"positions": "learned", "max_positions": 40, "tie": "decoder"}),
        ({"kind": "word"}, {"positions": "marian", "activation": "swish", "tie": "none"}),
        ({"joint": False}, {"tie": "decoder", "attention_bias": False, "projection_bias": False}),
        ({"joint": False}, {"tie": "none", "norm_first": False, "num_heads": 1}),
    ],
)
def test_any_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: dict[str, Any], model: dict[str, Any]
) -> None:
    trained = _bundle(tokenizer, **model)
    export_ctranslate2(trained, tmp_path / "model", "float32")
    agreement = agreement_of(tmp_path / "model", trained)
    assert agreement.equal == agreement.total == 32
    assert agreement.largest_difference < 1e-4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    monkeypatch.chdir(tmp_path)
    exec(_example(tmp_path / "model"), {})


def test_a_model_with_an_imported_tokenizer(small_marian: Path, tmp_path: Path) -> None:
    trained = import_marian(small_marian, "model").model
    export_ctranslate2(trained, tmp_path / "model", "float32")
    assert agreement_of(tmp_path / "model", trained).largest_difference < 1e-4
    command = [sys.executable, "-c", _example(tmp_path / "model")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_smaller_weights(tmp_path: Path, quantization: Any) -> None:
    trained = _bundle({})
    before = [parameter.clone() for parameter in trained.transformer.parameters()]
    export_ctranslate2(trained, tmp_path / "model", quantization)
    assert 0 < agreement_of(tmp_path / "model", trained).largest_difference < 0.1
    assert all(map(torch.equal, before, trained.transformer.parameters()))
    export_ctranslate2(trained, tmp_path / "whole", "float32")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("model", "whole")]
    assert sizes[0] < sizes[1]


def test_a_wrong_weight_is_seen(tmp_path: Path) -> None:
    """The comparison of these tests sees one exported layer that is not the model's."""
    trained, other = _bundle({}), _bundle({}, activation="relu", norm_first=False)
    export_ctranslate2(other, tmp_path / "model", "float32")
    assert agreement_of(tmp_path / "model", trained).largest_difference > 1e-2


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelError, match=r"`pip install .\.\[exchange\].`"):
        export_ctranslate2(_bundle({}), tmp_path / "model", "float32")
    assert not list(tmp_path.iterdir())


def test_the_paper_penalty_is_said_to_have_no_counterpart(tmp_path: Path) -> None:
    trained = _bundle({})
    export_ctranslate2(trained, tmp_path / "a", "float32")
    power = replace(trained.config.inference, length_penalty="power", length_penalty_alpha=0.7)
    export_ctranslate2(replace(trained, config=replace(trained.config, inference=power)), tmp_path / "b", "float32")
    assert "no counterpart" in (tmp_path / "a" / "README.md").read_text()
    assert "length_penalty=0.7" in (tmp_path / "b" / "README.md").read_text()


def _example(folder: Path) -> str:
    example = re.search(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert example is not None
    return example[1]
