"""Converted copies of a model's weights, converted again when the weights have changed."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dragoman.bundle import Weights

Form = TypeVar("Form")


class Converted(Generic[Form]):
    """The result of `convert`, cached until a parameter of the model is changed in place or gets new memory."""

    def __init__(self, weights: Weights, convert: Callable[[], Form]) -> None:
        self._weights = weights
        self._convert = convert
        self._lock = threading.Lock()
        self._made_from: list[tuple[int, int]] = []
        self._form: Form

    def now(self) -> Form:
        """The conversion of the current weights. Safe to call from several threads."""
        with self._lock:
            now = self._weights.version
            if now != self._made_from:
                self._form, self._made_from = self._convert(), now
            return self._form
