"""Models as arrays, and as Transformers when they are first read."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.bundle import load_bundle
from dragoman.inference.translator import Translator
from dragoman.model.trained import LazyTransformer, TrainedModel
from dragoman.model.transformer import Transformer


def test_a_model_is_built_once_and_shares_the_memory_of_the_arrays(model_folder: Path) -> None:
    lazy = LazyTransformer(load_bundle(model_folder), "cpu")
    arrays, version = lazy.arrays, lazy.version
    model = lazy.build()
    assert isinstance(model, Transformer)
    assert not model.training
    assert lazy.build() is model
    assert lazy.version == version, "converted copies stay valid"
    with torch.no_grad():
        model.projection.bias += 1
    assert lazy.version != version
    for name, array in lazy.arrays.items():
        assert np.shares_memory(array, arrays[name])


def test_a_translator_sees_changes_of_its_model(model_folder: Path) -> None:
    translator = Translator.load(model_folder, "cpu")
    [trained] = translator.trained_models
    before = translator("one two")
    assert translator("one two") == before
    with torch.no_grad():
        trained.model.projection.bias[trained.tokenizers.tgt.encode("three")[0]] += 100
    assert translator("one two") != before


def test_saving_needs_no_transformer(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LazyTransformer, "build", None)
    TrainedModel.load(model_folder, "cpu").save(tmp_path / "copy")
    saved, expected = load_bundle(tmp_path / "copy"), load_bundle(model_folder)
    assert all(np.array_equal(saved.arrays[name], array) for name, array in expected.arrays.items())
