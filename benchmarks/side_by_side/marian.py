"""The MarianMTModel of transformers in the sizes of the benchmarks.

Marian orders its ids differently: the end of sentence is 0, unknown pieces are 1, and padding, which also starts the
decoder and whose embedding is zero, comes last.
"""

from typing import TYPE_CHECKING

from side_by_side.shapes import DROPOUT, Size

if TYPE_CHECKING:
    from transformers import MarianConfig

MARIAN_EOS_ID, MARIAN_UNK_ID = 0, 1


def marian_config(
    vocab_size: int, size: Size, activation: str, dropout: float = DROPOUT, inner_dropout: float = DROPOUT
) -> "MarianConfig":
    """A post-norm model with tied embeddings. `vocab_size` counts padding; the OPUS-MT models have swish."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=vocab_size,
        decoder_vocab_size=vocab_size,
        d_model=size.d_model,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        dropout=dropout,
        attention_dropout=inner_dropout,
        activation_dropout=inner_dropout,
        activation_function=activation,
        max_position_embeddings=512,
        scale_embedding=True,
        tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=vocab_size - 1,
        bos_token_id=MARIAN_EOS_ID,
        eos_token_id=MARIAN_EOS_ID,
        forced_eos_token_id=None,
        decoder_start_token_id=vocab_size - 1,
    )
