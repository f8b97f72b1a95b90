"""OpenNMT-py, and the part of its configuration that its successor Eole shares."""

import re
from dataclasses import dataclass
from typing import ClassVar

from recording import write_lines

from side_by_side.shapes import ADAM_BETAS, BATCH_TOKENS, DROPOUT, LABEL_SMOOTHING
from side_by_side.toolkits.toolkit import Search, Toolkit

ONMT_SPEED = re.compile(r"[\d.]+/\s*(?P<speed>[\d.]+) tok/s")
"""Tokens a second: source / target, padding not counted."""


@dataclass(frozen=True, slots=True)
class OpenNMTStyle(Toolkit):
    """The part of the configuration that both toolkits understand."""

    speed_line: ClassVar[re.Pattern[str]] = ONMT_SPEED

    def data_settings(self, log_every_steps: int) -> str:
        """Return the settings of vocabulary and corpora."""
        pieces = self.corpus.pieces()
        ranked = [f"{piece}\t{len(pieces) - rank}" for rank, piece in enumerate(pieces)]
        vocabulary = write_lines(self.work / "vocabulary.txt", ranked)
        train_src, train_tgt = self.pieces("train")
        val_src, val_tgt = self.pieces("val")
        return f"""
src_vocab: "{vocabulary}"
tgt_vocab: "{vocabulary}"
src_vocab_size: 20000
tgt_vocab_size: 20000
src_words_min_frequency: 1
tgt_words_min_frequency: 1
share_vocab: true
overwrite: true
seed: 1
report_every: {log_every_steps}
data:
    corpus_1: {{path_src: "{train_src}", path_tgt: "{train_tgt}", transforms: []}}
    valid: {{path_src: "{val_src}", path_tgt: "{val_tgt}", transforms: []}}
save_data: "{self.work}/data"
"""

    def training_settings(self, updates: int) -> list[str]:
        """Return the settings of batches, optimizer and dropout, one per line."""
        return [
            f"train_steps: {updates}",
            "valid_steps: 1000000",
            f"save_checkpoint_steps: {updates}",
            "warmup_steps: 1000",
            "world_size: 1",
            "num_workers: 0",
            "batch_type: tokens",
            f"batch_size: {BATCH_TOKENS}",
            "valid_batch_size: 64",
            "batch_size_multiple: 1",
            "bucket_size: 29000",
            "accum_count: [1]",
            "accum_steps: [0]",
            "optim: adam",
            "learning_rate: 2.0",
            "decay_method: noam",
            f"adam_beta2: {ADAM_BETAS[1]}",
            "max_grad_norm: 0",
            f"label_smoothing: {LABEL_SMOOTHING}",
            "normalization: tokens",
            "dropout_steps: [0]",
            f"dropout: [{DROPOUT}]",
            f"attention_dropout: [{DROPOUT}]",
        ]


@dataclass(frozen=True, slots=True)
class OpenNMT(OpenNMTStyle):
    """OpenNMT-py 3."""

    package: ClassVar[str] = "OpenNMT-py"
    checkpoint_files: ClassVar[str] = "model_step_*.pt"

    def train_command(self, log_every_steps: int, updates: int) -> list[str]:
        settings = [
            *self.training_settings(updates),
            f'save_model: "{self.work}/model"',
            "model_dtype: fp32",
            "param_init: 0",
            "param_init_glorot: true",
            "encoder_type: transformer",
            "decoder_type: transformer",
            "position_encoding: true",
            f"enc_layers: {self.size.layers}",
            f"dec_layers: {self.size.layers}",
            f"heads: {self.size.num_heads}",
            f"hidden_size: {self.size.d_model}",
            f"word_vec_size: {self.size.d_model}",
            f"transformer_ff: {self.size.d_ff}",
            "share_decoder_embeddings: true",
            "share_embeddings: true",
        ]
        text = self.data_settings(log_every_steps) + "\n".join(settings) + "\n"
        config = self.write("train.yaml", self.overridden(text))
        return [self.program("onmt_train"), "-config", config]

    def translate_command(self, search: Search) -> list[str]:
        options = {
            "-model": search.model or sorted(self.work.glob("model_step_*.pt"))[-1],
            "-src": search.src,
            "-output": search.output,
            "-batch_size": search.batch,
            "-batch_type": "sents",
            "-beam_size": search.beam,
            "-min_length": search.forced,
            "-max_length": search.longest,
            "-max_length_ratio": 0,
            "-gpu": -1,
        }
        return [self.program("onmt_translate"), *(str(word) for pair in options.items() for word in pair)]
