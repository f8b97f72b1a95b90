"""Dragoman's search at a forced output length, so that untrained weights serve for a measurement."""

from typing import Any


class Capped:
    """A model as the search sees it, with another longest output; `min_tokens` does the rest."""

    def __init__(self, model: Any, max_length: int) -> None:
        self._model, self.max_length = model, max_length

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
