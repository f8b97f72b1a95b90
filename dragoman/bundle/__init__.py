"""A model as a folder: weights, tokenisers, settings and card, with a manifest that proves them whole."""

from dragoman.bundle.card import Card
from dragoman.bundle.folder import (
    Bundle,
    filled,
    load_bundle,
    replace_card,
    resolve_model_folder,
    save_bundle,
    write_bundle_files,
)

__all__ = [
    "Bundle",
    "Card",
    "filled",
    "load_bundle",
    "replace_card",
    "resolve_model_folder",
    "save_bundle",
    "write_bundle_files",
]
