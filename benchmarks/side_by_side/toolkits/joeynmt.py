"""JoeyNMT, which does not sort by length and logs target tokens."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from side_by_side.shapes import ADAM_BETAS, BATCH_TOKENS, DROPOUT, LABEL_SMOOTHING, LEARNING_RATE
from side_by_side.toolkits.toolkit import NEVER, Search, Toolkit


@dataclass(frozen=True, slots=True)
class JoeyNMT(Toolkit):
    """Configured by one YAML file for training and translation."""

    package: ClassVar[str] = "joeynmt"
    checkpoint_files: ClassVar[str] = "model/*.ckpt"
    speed_line: ClassVar[re.Pattern[str]] = re.compile(r"Tokens per Sec:\s*(?P<speed>[\d.]+)")

    def train_command(self, log_every_steps: int, updates: int) -> list[str]:
        testing = "{n_best: 1, beam_size: 1, batch_size: 64, batch_type: sentence, max_output_length: 20}"
        val = str(self.corpus.folder / "val.pieces")
        config = self._config(val, val, testing, log_every_steps, updates)
        return [self.program("python"), "-m", "joeynmt", "train", self.write("train.yaml", config)]

    def translate_command(self, search: Search) -> list[str]:
        testing = (
            f"{{n_best: 1, beam_size: {search.beam}, beam_alpha: 1.0, batch_size: {search.batch}, "
            f"batch_type: sentence, min_output_length: {max(search.forced, 1)}, "
            f"max_output_length: {search.longest}, "
            + (f'load_model: "{search.model}", ' if search.model else "")
            + "eval_metrics: [bleu]}"
        )
        test = str(search.src.with_suffix(""))
        dev = str(self.first_lines("dev", 8).with_suffix(""))  # it is translated too, before the test set
        config = self._config(dev, test, testing, 1, 1)
        path = self.write("translate.yaml", config)
        return [self.program("python"), "-m", "joeynmt", "test", path, "-o", str(search.output)]

    def written(self, search: Search) -> Path:
        return search.output.with_name(search.output.name + ".test")

    def generation_seconds(self, log: str) -> float | None:
        """Return the seconds of the test set, which comes after the development set."""
        found = re.findall(r"Generation took ([\d.]+)", log)
        return float(found[-1]) if found else None

    def _config(self, dev: str, test: str, testing: str, log_every_steps: int, updates: int) -> str:
        vocabulary = self.vocabulary("vocabulary.txt", ("<unk>", "<pad>", "<s>", "</s>"))
        specials = (
            '{unk_token: "<unk>", unk_id: 0, pad_token: "<pad>", pad_id: 1, bos_token: "<s>", bos_id: 2, '
            'eos_token: "</s>", eos_id: 3}'
        )
        side = f'level: word, lowercase: false, normalize: false, max_length: 250, voc_file: "{vocabulary}"'
        stack = f"""
        type: transformer
        num_layers: {self.size.layers}
        num_heads: {self.size.num_heads}
        embeddings: {{embedding_dim: {self.size.d_model}, scale: true, dropout: {DROPOUT}}}
        hidden_size: {self.size.d_model}
        ff_size: {self.size.d_ff}
        dropout: {DROPOUT}
        layer_norm: pre
        activation: relu
"""
        config = f"""
name: benchmark
joeynmt_version: "2.3.0"
model_dir: "{self.work}/model"
use_cuda: false
fp16: false
random_seed: 1
data:
    train: "{self.corpus.folder}/train.pieces"
    dev: "{dev}"
    test: "{test}"
    dataset_type: plain
    src: {{lang: {self.corpus.src_lang}, {side}}}
    trg: {{lang: {self.corpus.tgt_lang}, {side}}}
    special_symbols: {specials}
training:
    optimizer: adamw
    normalization: tokens
    adam_betas: {list(ADAM_BETAS)}
    scheduling: warmupinversesquareroot
    learning_rate_warmup: 1000
    learning_rate: {LEARNING_RATE}
    learning_rate_min: 0.00000001
    weight_decay: 0.0
    label_smoothing: {LABEL_SMOOTHING}
    loss: crossentropy
    batch_size: {BATCH_TOKENS}
    batch_type: token
    batch_multiplier: 1
    early_stopping_metric: ppl
    epochs: 1000
    validation_freq: {NEVER if updates >= NEVER else updates}
    updates: {updates}
    logging_freq: {log_every_steps}
    overwrite: true
    shuffle: true
    keep_best_ckpts: 1
    print_valid_sents: [0]
model:
    initializer: xavier_uniform
    bias_initializer: zeros
    init_gain: 1.0
    embed_initializer: xavier_uniform
    embed_init_gain: 1.0
    tied_embeddings: true
    tied_softmax: true
    encoder: {stack}
    decoder: {stack}
"""
        return self.overridden(config) + f"testing: {testing}\n"
