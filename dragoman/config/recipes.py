"""The settings that suit a corpus of a given size, for whoever gives only the data.

Small corpora want small, strongly regularised models and few merges (Araabi & Monz 2020; Sennrich & Zhang 2019).
"""

from dataclasses import replace

from dragoman.config.settings import PRESETS, Config, TokenizerSettings, TrainSettings

# Up to so many pairs: preset, vocabulary, BPE dropout, dropout, batch in target tokens, peak rate, warm-up steps.
_RULE = (
    (5_000, "tiny", 2_000, 0.1, 0.3, 2048, 0.003, 500),
    (50_000, "tiny", 8_000, 0.0, 0.3, 4096, 0.004, 1000),
    (250_000, "tiny", 10_000, 0.0, 0.1, 4096, 0.004, 2000),
    (2_000_000, "small", 16_000, 0.0, 0.1, 8192, 0.002, 4000),
    (float("inf"), "base", 32_000, 0.0, 0.1, 25_000, 0.0007, 4000),
)


def recipe_for(num_pairs: int, tokenizer: TokenizerSettings) -> Config:
    """The configuration for a corpus of `num_pairs` sentence pairs and the kind of tokenizer asked for."""
    _, preset, vocab_size, bpe_dropout, dropout, batch_tokens, rate, warmup = next(
        row for row in _RULE if num_pairs <= row[0]
    )
    return Config(
        tokenizer=TokenizerSettings(vocab_size=vocab_size, bpe_dropout=bpe_dropout if tokenizer.kind == "bpe" else 0.0),
        model=replace(PRESETS[preset], dropout=dropout, tie="all" if tokenizer.joint else "decoder"),
        train=TrainSettings(batch_tokens=batch_tokens, learning_rate=rate, warmup_steps=warmup),
    )
