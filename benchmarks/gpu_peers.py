"""The peers of `gpu.py` with the same shapes: torch.nn.Transformer as documented, and Marian in transformers."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from dragoman.config import ModelSettings
from dragoman.data.batch import Batch
from dragoman.model.embedding import sinusoidal_positions
from dragoman.records import BOS_ID, EOS_ID, PAD_ID

try:
    from transformers import MarianConfig, MarianMTModel

    MARIAN_MISSING = ""
except ImportError:
    MARIAN_MISSING = "transformers is not installed and left out"


class TorchPeer(nn.Module):
    """torch.nn.Transformer with tied embeddings and fused attention, which knows that the target mask is causal."""

    def __init__(self, settings: ModelSettings, vocab_size: int, max_length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, settings.d_model)
        nn.init.normal_(self.embedding.weight, std=settings.d_model**-0.5)
        self.register_buffer("positions", sinusoidal_positions(max_length + 1, settings.d_model), persistent=False)
        self.dropout = nn.Dropout(settings.dropout)
        self.transformer = nn.Transformer(
            settings.d_model,
            settings.num_heads,
            settings.num_encoder_layers,
            settings.num_decoder_layers,
            settings.d_ff,
            settings.dropout,
            batch_first=True,
            norm_first=settings.norm_first,
        )
        self.scale = math.sqrt(settings.d_model)

    def loss(self, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the sum of the smoothed loss over the labels."""
        decoder_input = batch.decoder_input
        length = decoder_input.size(1)
        src_padding, tgt_padding = batch.src_ids == PAD_ID, decoder_input == PAD_ID
        causal = torch.ones(length, length, dtype=torch.bool, device=decoder_input.device).triu(1)
        hidden = self.transformer(
            self.embed(batch.src_ids),
            self.embed(decoder_input),
            tgt_mask=causal,
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
            tgt_is_causal=True,
        )
        logits = functional.linear(hidden, self.embedding.weight)
        return smoothed_sum(logits, batch.labels, label_smoothing)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])


class MarianPeer(nn.Module):
    """MarianMTModel of transformers from a configuration, with its fused attention."""

    def __init__(self, settings: ModelSettings, vocab_size: int, max_length: int) -> None:
        super().__init__()
        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=vocab_size,
                d_model=settings.d_model,
                encoder_layers=settings.num_encoder_layers,
                decoder_layers=settings.num_decoder_layers,
                encoder_attention_heads=settings.num_heads,
                decoder_attention_heads=settings.num_heads,
                encoder_ffn_dim=settings.d_ff,
                decoder_ffn_dim=settings.d_ff,
                dropout=settings.dropout,
                attention_dropout=settings.attention_dropout,
                activation_dropout=settings.activation_dropout,
                activation_function="relu",
                max_position_embeddings=max(512, max_length + 1),
                scale_embedding=True,
                share_encoder_decoder_embeddings=True,
                pad_token_id=PAD_ID,
                bos_token_id=BOS_ID,
                eos_token_id=EOS_ID,
                forced_eos_token_id=None,
                decoder_start_token_id=BOS_ID,
                attn_implementation="sdpa",
            )
        )

    def loss(self, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the sum of the smoothed loss over the labels."""
        output = self.model(
            input_ids=batch.src_ids,
            attention_mask=(batch.src_ids != PAD_ID).long(),
            decoder_input_ids=batch.decoder_input,
            use_cache=False,
        )
        return smoothed_sum(output.logits, batch.labels, label_smoothing)

    @torch.inference_mode()
    def generate(self, src_ids: Tensor, src_lengths: Tensor, beam: int, length: int) -> Tensor:
        """Return the ids of outputs with exactly `length` tokens."""
        positions = torch.arange(src_ids.size(1), device=src_ids.device)
        return self.model.generate(
            input_ids=src_ids,
            attention_mask=(positions < src_lengths[:, None]).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )


def smoothed_sum(logits: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    return functional.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
