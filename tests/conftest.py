"""Shapes that signatures state are checked in every test that calls them (jaxtyping with beartype)."""

from jaxtyping import install_import_hook

install_import_hook(["dragoman.model", "dragoman.train.loss"], "beartype.beartype")
