"""A model as a folder: weights, tokenizers, settings and card, with a manifest that detects damage."""

from dragoman.bundle.card import Card
from dragoman.bundle.folder import Bundle, load_bundle, replace_card, save_bundle, write_bundle_files
from dragoman.bundle.location import resolve_model_folder

__all__ = [
    "Bundle",
    "Card",
    "load_bundle",
    "replace_card",
    "resolve_model_folder",
    "save_bundle",
    "write_bundle_files",
]
