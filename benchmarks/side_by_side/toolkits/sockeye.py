"""Sockeye 3, which prepares the data first, logs sentences per second, and has no minimum output length."""

import os
import re
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from side_by_side.shapes import BATCH_TOKENS, DROPOUT, LABEL_SMOOTHING, LEARNING_RATE
from side_by_side.toolkits.toolkit import Search, Toolkit

MAX_SEQUENCE = 120


@dataclass(frozen=True, slots=True)
class Sockeye(Toolkit):
    """Sockeye, configured by flags only."""

    package: ClassVar[str] = "sockeye"
    speed_line: ClassVar[re.Pattern[str]] = re.compile(r"s/sec=(?P<speed>[\d.]+)")

    def train_command(self, log_every_steps: int, updates: int) -> list[str]:
        layers, heads = f"{self.size.layers}:{self.size.layers}", str(self.size.num_heads)
        val_src, val_tgt = self.pieces("val")
        options = {
            "--prepared-data": self._prepared(),
            "--validation-source": val_src,
            "--validation-target": val_tgt,
            "--output": f"{self.work}/model",
            "--max-seq-len": MAX_SEQUENCE,
            "--batch-type": "max-word",
            "--batch-size": BATCH_TOKENS,
            "--checkpoint-interval": updates,
            "--max-updates": updates,
            "--encoder": "transformer",
            "--decoder": "transformer",
            "--num-layers": layers,
            "--transformer-model-size": self.size.d_model,
            "--transformer-attention-heads": heads,
            "--transformer-feed-forward-num-hidden": self.size.d_ff,
            "--transformer-dropout-attention": DROPOUT,
            "--transformer-dropout-act": DROPOUT,
            "--transformer-dropout-prepost": DROPOUT,
            "--weight-tying-type": "src_trg_softmax",
            "--label-smoothing": LABEL_SMOOTHING,
            "--optimizer": "adam",
            "--initial-learning-rate": LEARNING_RATE,
            "--learning-rate-scheduler-type": "none",
            "--seed": 1,
        }
        # Its own log speaks every 50 batches only, too seldom for a large model.
        start = (
            f"import sockeye.constants as c; c.MEASURE_SPEED_EVERY = {log_every_steps}; "
            "from sockeye.train import main; main()"
        )
        words = (str(word) for pair in options.items() for word in pair)
        return [self.program("python"), "-c", start, "--use-cpu", "--overwrite-output", *words]

    def translate_command(self, search: Search) -> list[str]:
        options = {
            "--models": f"{self.work}/model",
            "--input": search.src,
            "--output": search.output,
            "--beam-size": search.beam,
            "--batch-size": search.batch,
            "--max-output-length": search.forced,
        }
        words = (str(word) for pair in options.items() for word in pair)
        return [self.program("sockeye-translate"), "--use-cpu", *words]

    def tokens_per_unit(self) -> float:
        """Return the mean target length: the log has sentences per second."""
        return float(self.corpus.meta[f"train_{self.corpus.tgt_lang}_tokens"])

    def _prepared(self) -> str:
        folder = self.work.parent / "sockeye-data"
        if not (folder / "data.info").exists():
            src, tgt = self.pieces("train")
            command = [
                self.program("sockeye-prepare-data"),
                "--source",
                str(src),
                "--target",
                str(tgt),
                "--shared-vocab",
            ]
            command += ["--max-seq-len", str(MAX_SEQUENCE), "--output", str(folder)]
            subprocess.run(command, check=True, capture_output=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
        return str(folder)
