"""Model folders: exact round trips, and an error that names each kind of damage."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.bundle import Card, Model, Weights, replace_card, resolve_model_folder
from dragoman.config import PRESETS, Config, TokenizerSettings
from dragoman.errors import ModelError
from dragoman.files import MANIFEST, write_folder
from dragoman.model.transformer import Transformer
from dragoman.records import Score
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer


@pytest.fixture
def trained() -> Model:
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=280), ["ein Mann fährt Rad", "a man rides a bike"] * 5)
    config = Config(model=replace(PRESETS["tiny"], d_model=16, d_ff=16, num_encoder_layers=1, num_decoder_layers=1))
    model = Transformer(config.model, tokenizer.vocab_size, tokenizer.vocab_size)
    return Model(
        Weights.of(model), TokenizerPair(tokenizer, tokenizer, joint=True), config, Card(src_lang="en", train_pairs=7)
    )


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_round_trip_is_exact_and_stays_tied(trained: Model, tmp_path: Path, tie: str) -> None:
    config = replace(trained.config, model=replace(trained.config.model, tie=tie))
    size = trained.tokenizers.src.vocab_size
    trained = replace(trained, weights=Weights.of(Transformer(config.model, size, size)), config=config)
    trained.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model", "cpu")
    assert loaded.config == config
    assert loaded.card == trained.card
    assert not loaded.transformer.training
    assert dict(loaded.transformer.named_parameters()).keys() == dict(trained.transformer.named_parameters()).keys()
    for name, parameter in trained.transformer.named_parameters():
        assert torch.equal(parameter, dict(loaded.transformer.named_parameters())[name])
    assert loaded.tokenizers.src.encode("ein Rad </s>") == trained.tokenizers.src.encode("ein Rad </s>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_loaded_model_is_no_part_of_its_files(trained: Model, tmp_path: Path) -> None:
    """Memory-mapped arrays would change with the file, and reading beyond its new end would kill the process."""
    trained.save(tmp_path / "model")
    loaded, path = Model.load(tmp_path / "model", "cpu"), tmp_path / "model" / "model.safetensors"
    with path.open("r+b") as stream:
        stream.seek(-2000, 2)
        stream.write(b"\0" * 2000)
    for name, parameter in trained.transformer.named_parameters():
        assert torch.equal(parameter, dict(loaded.transformer.named_parameters())[name])
    os.truncate(path, 100)
    assert all(parameter.isfinite().all() for parameter in loaded.transformer.parameters())


def test_what_is_loaded_is_what_was_compared(trained: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing weights, tokenizers or card during loading is an error."""
    trained.save(tmp_path / "model")
    load = TokenizerPair.load

    def exchanging(path: Path, change: str) -> TokenizerPair:
        found = load(path)
        content = bytearray((path / change).read_bytes())
        content[-20] ^= 1
        (path / change).write_bytes(content)
        return found

    for name in ("model.safetensors", "tokenizer.json"):
        monkeypatch.setattr(TokenizerPair, "load", partial(exchanging, change=name))
        with pytest.raises(ModelError, match=f"{name} is damaged"):
            Model.load(tmp_path / "model", "cpu")
        trained.save(tmp_path / "model")


def test_another_card_leaves_the_rest(trained: Model, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    replace_card(tmp_path / "model", trained.card.with_scores("test", [Score("BLEU", 12.341, "sig|nature")]))
    loaded = Model.load(tmp_path / "model", "cpu")
    assert loaded.card.scores == (("test", "BLEU", 12.34, "sig|nature"),)
    assert "sig\\|nature" in (tmp_path / "model" / "card.md").read_text()
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    again = loaded.card.with_scores("test", [Score("BLEU", 20.0, "sig")]).with_scores(
        "dev", [Score("BLEU", 1.0, "sig")]
    )
    assert again.scores == (("test", "BLEU", 20.0, "sig"), ("dev", "BLEU", 1.0, "sig"))


FILES = ["config.toml", "tokenizer.json", "model.safetensors", "card.json", "card.md", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "empty"])
def test_every_damaged_file_is_found_and_named(trained: Model, tmp_path: Path, name: str, damage: str) -> None:
    trained.save(tmp_path / "model")
    path = tmp_path / "model" / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-3])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        Model.load(tmp_path / "model", "cpu")
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_foreign_file_is_named(trained: Model, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    (tmp_path / "model" / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is not in the manifest"):
        Model.load(tmp_path / "model", "cpu")


def _without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["decoder.norm.bias"]
    save_file(tensors, folder / "model.safetensors")


def _of_another_shape(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["decoder.norm.bias"] = torch.zeros(17)
    save_file(tensors, folder / "model.safetensors")


def _no_safetensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x04pickle" * 9000)


def _misspelt_setting(folder: Path) -> None:
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("d_model =", "dmodel ="))


def _other_tokenizer(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["type"] = "Unknown"
    (folder / "tokenizer.json").write_text(json.dumps(content))


def _of_another_type(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"decoder.norm.bias": torch.zeros(16, dtype=torch.float16)}, folder / "model.safetensors")


def _settings(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "config.toml").read_text()
        assert old in text
        (folder / "config.toml").write_text(text.replace(old, new))

    return change


def _json(name: str, content: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(content)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_a_tensor, "tensor `decoder.norm.bias` is missing"),
        (_of_another_shape, r"F32 \(17,\) instead of F32 \(16,\)"),
        (_no_safetensors, "not a readable safetensors file"),
        (_misspelt_setting, "model.d_model"),
        (_other_tokenizer, "tokenizer.json"),
        (_of_another_type, r"is F16 \(16,\) instead of F32 \(16,\)"),
        (_settings("num_heads = 4", "num_heads = 3"), r"`model.d_model` in \S+config.toml must be a multiple of"),
        (_settings("[data]", f"{'.'.join('a' * 20_000)} = 1\n[data]"), "config.toml has a key of more than 16 parts"),
        (_settings("[data]", "#" * (1 << 18) + "\n[data]"), "config.toml has more than 262144 bytes"),
        (_settings("dropout = 0.3", f"dropout = {'[' * 100_000}"), "config.toml is nested too deeply"),
        (_json("tokenizer.json", "[" * 100_000), "tokenizer.json cannot be read as a tokenizer"),
        (_json("card.json", '{"parameters": "many"}'), 'card: its `parameters` is "many"'),
        (_json("card.json", '{"scores": [["test", "BLEU", 1.0]]}'), "card: its `scores` is"),
        (_json("card.json", '{"lineage": [1]}'), "card: its `lineage` is"),
        (_json("card.json", '{"src_lang": "\\ud800"}'), "card: its `src_lang` is"),
        (_json("card.json", "[" * 100_000), "card.json is not a model card"),
        (_json("card.json", "[" + "0," * (1 << 20) + "0]"), "card.json is not a model card: it has more than 1048576"),
    ],
)
def test_a_consistent_but_wrong_folder_is_refused(
    trained: Model, tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    """The manifest matches the files, as in a hostile folder or one from another program."""
    trained.save(tmp_path / "good")
    with write_folder(tmp_path / "model", {"format": 1}) as folder:
        for path in (tmp_path / "good").iterdir():
            if path.name != "manifest.json":
                (folder / path.name).write_bytes(path.read_bytes())
        change(folder)
    with pytest.raises(ModelError, match=words):
        Model.load(tmp_path / "model", "cpu")


@pytest.mark.parametrize("name", ["tokenizer.json", "card.json", "card.md", "config.toml", "model.safetensors"])
def test_no_file_is_read_that_is_larger_than_it_can_be(trained: Model, tmp_path: Path, name: str) -> None:
    trained.save(tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / MANIFEST).read_text())
    with (tmp_path / "model" / name).open("r+b") as stream:
        stream.truncate(10 << 30)  # a sparse file: it takes no space, but reading it would never end
    manifest["files"][name]["bytes"] = 10 << 30
    del manifest["sha256"]
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (tmp_path / "model" / MANIFEST).write_text(json.dumps(manifest | {"sha256": digest}))
    with pytest.raises(ModelError, match=rf"{name} (has|must have .* bytes, but has) {10 << 30}"):
        Model.load(tmp_path / "model", "cpu")


def test_a_checkpoint_is_a_model_whatever_the_size_of_its_optimizer(
    trained: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of the optimizer is larger than the weights, and translating does not read it."""
    trained.save(tmp_path / "good")
    files = {path.name: path.read_bytes() for path in (tmp_path / "good").iterdir() if path.name != MANIFEST}
    with write_folder(tmp_path / "checkpoint", {"format": 1}) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        (folder / "optimizer.safetensors").write_bytes(bytes(1 << 20))
    monkeypatch.setattr("dragoman.bundle.folder._MAX_BYTES", max(map(len, files.values())))
    loaded = Model.load(tmp_path / "checkpoint", "cpu")
    assert loaded.weights.arrays.keys() == trained.weights.arrays.keys()
    (tmp_path / "checkpoint" / "optimizer.safetensors").write_bytes(bytes(1 << 19))
    with pytest.raises(ModelError, match=r"optimizer.safetensors has 524288 bytes instead of 1048576"):
        Model.load(tmp_path / "checkpoint", "cpu")


def test_what_a_path_means(trained: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        resolve_model_folder(tmp_path / "nothing")
    with pytest.raises(ModelError, match="neither a model folder"):
        resolve_model_folder(tmp_path)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ModelError, match="is a run without a finished validation"):
        resolve_model_folder(tmp_path / "run")
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"Hugging Face format. Import it first: `dragoman import \S+marian --out"):
        resolve_model_folder(tmp_path / "marian")
    trained.save(tmp_path / "run" / "checkpoints" / "step_0000007")
    (tmp_path / "run" / "best").write_text("checkpoints/step_0000007\n")
    expected = (tmp_path / "run" / "checkpoints" / "step_0000007").resolve()
    assert resolve_model_folder(tmp_path / "run") == expected
    assert resolve_model_folder(tmp_path / "run" / "best") == expected
    trained.save(tmp_path / "run" / "averaged")
    assert resolve_model_folder(tmp_path / "run") == tmp_path / "run" / "averaged"
    (tmp_path / "run" / "astray").write_text("../../etc\n")
    with pytest.raises(ModelError, match="does not lead to a model folder"):
        resolve_model_folder(tmp_path / "run" / "astray")


def test_an_export_for_ctranslate2_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"x")
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(
        ModelError, match=r"exported for CTranslate2\. Name the model that it was exported from, or .* README\.md shows"
    ):
        resolve_model_folder(tmp_path)
