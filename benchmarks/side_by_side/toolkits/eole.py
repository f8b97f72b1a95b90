"""Eole, the successor of OpenNMT-py: much the same settings in other tables."""

from dataclasses import dataclass
from typing import ClassVar

from side_by_side.toolkits.opennmt import OpenNMTStyle
from side_by_side.toolkits.toolkit import Search


@dataclass(frozen=True, slots=True)
class Eole(OpenNMTStyle):
    """Eole's `train` and `predict`."""

    package: ClassVar[str] = "eole"
    checkpoint_files: ClassVar[str] = "model/step_*/model.00.safetensors"

    def train_command(self, log_every_steps: int, updates: int) -> list[str]:
        training = [
            *self.training_settings(updates),
            f'model_path: "{self.work}/model"',
            "compute_dtype: fp32",
            "param_init_method: xavier_uniform",
        ]
        model = [
            "architecture: transformer",
            f"hidden_size: {self.size.d_model}",
            "share_decoder_embeddings: true",
            "share_embeddings: true",
            f"layers: {self.size.layers}",
            f"heads: {self.size.num_heads}",
            f"transformer_ff: {self.size.d_ff}",
            f"embeddings: {{word_vec_size: {self.size.d_model}, position_encoding_type: SinusoidalInterleaved}}",
        ]
        tables = {"training": training, "model": model}
        text = "".join(f"{name}:\n" + "".join(f"    {line}\n" for line in lines) for name, lines in tables.items())
        config = self.write("train.yaml", self.overridden(self.data_settings(log_every_steps) + text))
        return [self.program("eole"), "train", "-config", config]

    def translate_command(self, search: Search) -> list[str]:
        model = search.model.parent if search.model else self.work / "model"
        config = f"""
model_path: ["{model}"]
src: "{search.src}"
output: "{search.output}"
batch_size: {search.batch}
batch_type: sents
beam_size: {search.beam}
min_length: {search.forced}
max_length: {search.longest}
max_length_ratio: 0
compute_dtype: fp32
world_size: 1
transforms: []
"""
        return [self.program("eole"), "predict", "-config", self.write("translate.yaml", config)]
