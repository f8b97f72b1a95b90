"""Valid and invalid folders of untrusted Marian models."""

import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.bundle import Model
from dragoman.errors import ModelError
from dragoman.exchange.marian import UNREACHABLE, export_marian, import_marian
from dragoman.inference.translator import Translator
from dragoman.records import BOS_ID


@pytest.fixture
def folder(small_marian: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_marian, tmp_path / "opus-mt-en-de"))


@pytest.fixture(scope="module")
def trained(small_marian: Path) -> Model:
    return import_marian(small_marian, "Someone/opus-mt-en-de").model


def change(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "gone"}))


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_marian(folder, "model")
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_settings(trained: Model) -> None:
    config, card = trained.config, trained.card
    assert (config.model.norm_first, config.model.positions, config.model.activation) == (False, "marian", "swish")
    assert (config.inference.beam_size, config.inference.length_penalty, config.inference.length_penalty_alpha) == (
        4,
        "power",
        1.0,
    )
    assert (config.data.src_lang, config.data.tgt_lang, config.data.max_tokens) == ("eng", "deu", 511)
    assert (config.tokenizer.kind, config.tokenizer.joint, config.model.tie) == ("sentencepiece", True, "all")
    assert card.origin.startswith("Someone/opus-mt-en-de")
    assert "It comes from Someone/opus-mt-en-de" in card.to_markdown()
    assert "Trained on" not in card.to_markdown()


@pytest.mark.slow
def test_it_is_a_model_like_any_other(trained: Model, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    translator = Translator.load(tmp_path / "model", "cpu")
    assert Model.load(tmp_path / "model", "cpu").config == trained.config
    one, empty, two = translator.translate(["The house.", "", ">>deu<< A garden."], max_extra_tokens=3)
    assert empty == ""
    assert one
    assert two


def test_languages_from_the_name(folder: Path) -> None:
    change(folder / "tokenizer_config.json", source_lang=None, target_lang=None)
    data = import_marian(folder, "Helsinki-NLP/opus-mt-tc-big-fi-zle").model.config.data
    assert (data.src_lang, data.tgt_lang) == ("fi", "zle")


def test_a_search_that_renormalises_takes_padding_out(folder: Path, trained: Model) -> None:
    assert trained.transformer.projection.bias[BOS_ID] > -100
    change(folder / "generation_config.json", renormalize_logits=True)
    assert import_marian(folder, "model").model.transformer.projection.bias[BOS_ID] == UNREACHABLE


def test_settings_of_old_models_and_what_is_not_taken_over(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    change(folder / "config.json", num_beams=6, max_length=20, no_repeat_ngram_size=3, static_position_embeddings=True)
    imported = import_marian(folder, "opus-mt-en-de")
    assert imported.model.config.inference.beam_size == 6
    assert imported.model.config.inference.max_extra_tokens == 19
    assert imported.notes == ("`no_repeat_ngram_size` (3) of its search is not imported",)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "bart"}, ["`model_type` must be", "bart"]),
        ({"scale_embedding": False}, ["`scale_embedding` must be true, but is false"]),
        ({"normalize_before": True}, ["`normalize_before` must be false, but is true"]),
        ({"add_final_layer_norm": True}, ["`add_final_layer_norm`"]),
        ({"activation_function": "gelu_new"}, ["`activation_function`", "gelu_new", "swish"]),
        ({"activation_function": ["relu"]}, ["`activation_function`"]),
        ({"decoder_attention_heads": 2}, ["`decoder_attention_heads` must be 4, but is 2"]),
        ({"decoder_ffn_dim": 64}, ["`decoder_ffn_dim` must be 128, but is 64"]),
        ({"encoder_layers": 0}, ["`encoder_layers` must be at least 1, but is 0"]),
        ({"encoder_layers": 10**9}, ["`encoder_layers` must be at most 1000, but is 1000000000"]),
        ({"d_model": 10**12, "encoder_attention_heads": 4}, ["`d_model` must be at most 65536"]),
        ({"encoder_layers": "six"}, ["`encoder_layers` must be a whole number"]),
        ({"encoder_layers": 3}, ["tensor `model.encoder.layers.2", "missing"]),
        ({"encoder_layers": 1}, ["tensor `model.encoder.layers.1", "is unknown to"]),
        ({"d_model": 66}, ["`d_model` must be an even multiple", "66"]),
        ({"d_model": 128}, ["must have the shape", "but has", "config.json"]),
        ({"vocab_size": 10**9}, ["vocab.json", "each id from 0 to 999999999 once"]),
        ({"vocab_size": -1}, ["`vocab_size` must be a whole number"]),
        ({"decoder_start_token_id": 5}, ["`decoder_start_token_id`"]),
        ({"pad_token_id": 3, "decoder_start_token_id": 3}, ["vocab.json", "the id of <pad>", "says 3"]),
        ({"eos_token_id": 1}, ["vocab.json", "the id of </s>"]),
        ({"dropout": 2.0}, ["`dropout` must be at most 0.95"]),
        ({"tie_word_embeddings": "yes"}, ["`tie_word_embeddings`"]),
        ({"max_position_embeddings": 0}, ["`max_position_embeddings` must be at least 2"]),
    ],
)
def test_what_config_json_may_not_say(folder: Path, values: dict[str, Any], words: list[str]) -> None:
    change(folder / "config.json", **values)
    refused(folder, *words)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"\x80\x04half", b"[" * 100_000])
def test_missing_and_damaged_files_are_named(folder: Path, name: str, content: bytes | None) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused(folder, name)


def _without_unk(vocabulary: dict[str, int]) -> None:
    vocabulary["no such piece"] = vocabulary.pop("<unk>")


def _repeated(vocabulary: dict[str, int]) -> None:
    vocabulary[next(iter(vocabulary))] = 5


def _text_ids(vocabulary: dict[str, int]) -> None:
    vocabulary["</s>"] = "0"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("damage", "words"), [(_without_unk, "<unk>"), (_repeated, "each id from"), (_text_ids, "each id from")]
)
def test_vocabularies(folder: Path, damage: Callable[[dict[str, int]], None], words: str) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text())
    damage(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    refused(folder, "vocab.json", words)


def test_tensors_of_a_deeper_model_and_of_another_type(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.encoder.layer_norm.weight": torch.zeros(64)}, folder / "model.safetensors")
    refused(folder, "model.encoder.layer_norm.weight", "is unknown to")
    save_file(tensors | {"final_logits_bias": torch.zeros(1, 4).long()}, folder / "model.safetensors")
    refused(folder, "final_logits_bias", "float")


def test_positions_that_are_not_computed(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"] = torch.rand(512, 64)
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "model.encoder.embed_positions.weight", "sines")


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_weights_are_read_for_their_tensors_alone(folder: Path, trained: Model, zipped: bool) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    imported = import_marian(folder, "model")
    assert "pytorch_model.bin is a pickle; only its tensors were read" in imported.notes[0]
    for one, other in zip(imported.model.transformer.parameters(), trained.transformer.parameters(), strict=True):
        assert torch.equal(one, other)


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('executed')",)


def test_pickles_that_hold_something_else(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save({"a": _Trap()}, path)
    refused(folder, "pytorch_model.bin", "tensors alone")
    path.write_bytes(pickle.dumps(_Trap()))
    refused(folder, "pytorch_model.bin")
    path.write_bytes(b"")
    refused(folder, "pytorch_model.bin")
    torch.save([torch.zeros(3)], path)
    refused(folder, "pytorch_model.bin", "table of tensors")
    drawn_out = {name: torch.zeros(1).expand(tensor.shape) for name, tensor in tensors.items()}
    torch.save(drawn_out, path)
    refused(folder, "pytorch_model.bin", "table of tensors")
    torch.save(tensors, folder / "stored.bin")
    with zipfile.ZipFile(folder / "stored.bin") as stored, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as squeezed:
        for entry in stored.namelist():
            squeezed.writestr(entry, stored.read(entry))
    refused(folder, "pytorch_model.bin", "compressed")


def test_what_cannot_be_exported_in_marians_form(trained: Model, tmp_path: Path) -> None:
    changes = [("norm_first", True), ("positions", "sinusoidal"), ("attention_bias", False)]
    for name, value in changes:
        config = replace(trained.config, model=replace(trained.config.model, **{name: value}))
        with pytest.raises(ModelError, match=f"`model.{name}`"):
            export_marian(replace(trained, config=config), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_marians_form_cannot_say(trained: Model, tmp_path: Path) -> None:
    config = replace(trained.config, inference=replace(trained.config.inference, length_penalty="paper"))
    notes = export_marian(replace(trained, config=config), tmp_path / "out")
    assert "`inference.length_penalty` (paper)" in notes[0]
