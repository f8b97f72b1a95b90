from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Bundle, Card, save_bundle
from dragoman.config import Config, DataSettings, InferenceSettings, ModelSettings, TokenizerSettings
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer


def _save_untrained_model(folder: Path, seed: int, **inference: Any) -> Path:
    torch.manual_seed(seed)
    config = Config(
        data=DataSettings(max_tokens=24),
        tokenizer=TokenizerSettings(vocab_size=280),
        model=ModelSettings(
            preset="custom", d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
        ),
        inference=InferenceSettings(**{"beam_size": 2, "max_extra_tokens": 3, **inference}),
    )
    tokenizer = train_tokenizer(config.tokenizer, ["one two three. four five"] * 3)
    model = Transformer(config.model, tokenizer.vocab_size, tokenizer.vocab_size)
    save_bundle(Bundle(model, TokenizerPair(tokenizer, tokenizer, joint=True), config, Card()), folder)
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows nothing, small and quick; longer than 24 tokens is split."""
    return _save_untrained_model(tmp_path_factory.mktemp("models") / "one", 1)


@pytest.fixture(scope="session")
def other_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one with the same tokenizer."""
    return _save_untrained_model(tmp_path_factory.mktemp("models") / "other", 2)


@pytest.fixture(scope="session")
def sampling_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first one, with settings by which it draws three candidates, more than its beam is wide."""
    folder = tmp_path_factory.mktemp("models") / "sampling"
    return _save_untrained_model(folder, 1, sample=True, temperature=0.8, top_k=9, top_p=0.9, beam_size=1, n_best=3)
