"""Models as arrays, and as Transformers when they are first read."""

import gc
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.bundle import Model, Weights
from dragoman.errors import ModelError
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer


def test_a_model_is_built_once_and_shares_the_memory_of_the_arrays(model_folder: Path) -> None:
    weights = Model.load(model_folder, "cpu").weights
    arrays, version = weights.arrays, weights.version
    model = weights.transformer
    assert isinstance(model, Transformer)
    assert not model.training
    assert weights.transformer is model
    assert weights.version == version, "converted copies stay valid"
    with torch.no_grad():
        model.projection.bias += 1
    assert weights.version != version
    for name, array in weights.arrays.items():
        assert np.shares_memory(array, arrays[name])


def test_a_translator_sees_changes_of_its_model(model_folder: Path) -> None:
    translator = Translator.load(model_folder, "cpu")
    [trained] = translator.models
    before = translator("one two")
    assert translator("one two") == before
    with torch.no_grad():
        trained.transformer.projection.bias[trained.tokenizers.tgt.encode("three")[0]] += 100
    changed = translator("one two")
    assert changed != before
    trained.transformer.projection.bias = torch.nn.Parameter(torch.zeros(trained.tokenizers.tgt.vocab_size))
    assert translator("one two") != changed


def test_saving_needs_no_transformer(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weights, "transformer", None)
    Model.load(model_folder, "cpu").save(tmp_path / "copy")
    saved, expected = (Model.load(one, "cpu").weights for one in (tmp_path / "copy", model_folder))
    assert all(np.array_equal(saved.arrays[name], array) for name, array in expected.arrays.items())


@pytest.fixture
def int8_folder(model_folder: Path, tmp_path: Path) -> Path:
    Model.load(model_folder, "cpu").quantize("int8").save(tmp_path / "int8")
    return tmp_path / "int8"


def test_integers_are_not_kept_beside_those_of_the_search(int8_folder: Path, tmp_path: Path) -> None:
    translator = Translator.load(int8_folder, "cpu")
    [trained] = translator.models
    arrays = dict(trained.weights.arrays)
    matrix = weakref.ref(arrays["decoder.layers.0.feed_forward.inner.weight"])
    before = translator("one two")
    assert translator("one two") == before
    assert trained.weights.arrays.keys() == arrays.keys(), "they are read again"
    trained.save(tmp_path / "copy")
    copy = Model.load(tmp_path / "copy", "cpu").weights.arrays
    assert all(np.array_equal(copy[name], array) for name, array in arrays.items())
    del arrays
    gc.collect()
    assert matrix() is None


def test_integers_of_a_folder_that_changed_are_not_read_again(int8_folder: Path, model_folder: Path) -> None:
    translator = Translator.load(int8_folder, "cpu")
    [trained] = translator.models
    before = translator("one two")
    Model.load(model_folder, "cpu").save(int8_folder)
    with pytest.raises(ModelError, match=rf"^{int8_folder} has changed since it was loaded\. Load it again\.$"):
        trained.save(int8_folder.parent / "copy")
    shutil.rmtree(int8_folder)
    with pytest.raises(ModelError, match=f"^{int8_folder} "):
        trained.save(int8_folder.parent / "copy")
    assert translator("one two") == before
