"""A model as a folder: weights, tokenizers, settings and card, with a manifest that detects damage.

| file | content | written and read by |
|---|---|---|
| config.toml | all settings, defaults included | `dragoman.config` |
| tokenizer.json | the joint tokenizer; if not joint, src.tokenizer.json and tgt.tokenizer.json | `text/tokenization` |
| model.safetensors | every distinct parameter; float32, or integers with scales | `weights`, `parameters` |
| card.json, card.md | data, scores and size, for programs and for people | `card` |
| manifest.json | size and SHA-256 of each file, format, versions | `dragoman.files` |

`folder` reads and writes the whole, and `location` finds the folder that a path of the user means. No module here
imports torch: `model/trained.py` makes tensors of a `Bundle`, and `inference/compiled` uses its arrays as they are.
"""

from dragoman.bundle.card import Card
from dragoman.bundle.folder import Bundle, load_bundle, replace_card, save_bundle, write_bundle_files
from dragoman.bundle.location import is_built_in, resolve_model_folder

__all__ = [
    "Bundle",
    "Card",
    "is_built_in",
    "load_bundle",
    "replace_card",
    "resolve_model_folder",
    "save_bundle",
    "write_bundle_files",
]
