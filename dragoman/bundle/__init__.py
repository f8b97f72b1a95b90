"""A model as a folder: weights, tokenizers, settings and card, with a manifest that detects damage.

| file | content | written and read by |
|---|---|---|
| config.toml | all settings, defaults included | `dragoman.config` |
| tokenizer.json | the joint tokenizer; if not joint, src.tokenizer.json and tgt.tokenizer.json | `text/tokenization` |
| model.safetensors | every distinct parameter; float32, or integers with scales | `weights` |
| card.json, card.md | data, scores and size, for programs and for people | `card` |
| manifest.json | size and SHA-256 of each file, format, versions | `dragoman.files` |

`Model` is what a folder holds, and what all other packages work with. `folder` has the layout of the folder, and
finds the folder that a path of the user means. Torch is imported when a `Transformer` is first needed.
"""

from dragoman.bundle.card import Card
from dragoman.bundle.folder import is_built_in, is_hugging_face, replace_card, resolve_model_folder
from dragoman.bundle.model import Model, Weights

__all__ = ["Card", "Model", "Weights", "is_built_in", "is_hugging_face", "replace_card", "resolve_model_folder"]
