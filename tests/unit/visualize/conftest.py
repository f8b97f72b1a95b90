import pytest
import torch

from dragoman.bundle import Bundle, Card
from dragoman.config import Config, DataSettings, InferenceSettings, ModelSettings, TokenizerSettings
from dragoman.model.transformer import Transformer
from dragoman.text.tokenizer import TokenizerPair, train_tokenizer


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """A model that has learnt nothing, but whose weights are far enough from the start to prefer some tokens."""
    torch.manual_seed(5)
    config = Config(
        data=DataSettings(max_tokens=24, src_lang="en", tgt_lang="de"),
        tokenizer=TokenizerSettings(vocab_size=300),
        model=ModelSettings(
            preset="custom", d_model=16, d_ff=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2
        ),
        inference=InferenceSettings(beam_size=3, max_extra_tokens=4),
    )
    tokenizer = train_tokenizer(config.tokenizer, ["one two three. four five Bahnhof"] * 3)
    model = Transformer(config.model, tokenizer.vocab_size, tokenizer.vocab_size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return Bundle(model, TokenizerPair(tokenizer, tokenizer, joint=True), config, Card())
