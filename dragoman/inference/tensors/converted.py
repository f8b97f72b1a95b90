"""Copies of a model's weights in another form, made anew when the weights have changed."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dragoman.model.transformer import Transformer

Form = TypeVar("Form")


class Converted(Generic[Form]):
    """What `convert` makes of a model, kept until a parameter is changed in place or replaced."""

    def __init__(self, model: Transformer, convert: Callable[[], Form]) -> None:
        self._parameters = list(model.parameters())
        self._convert = convert
        self._lock = threading.Lock()
        self._made_from: list[tuple[int, int]] = []
        self._form: Form

    def now(self) -> Form:
        """That of the weights as they are; several threads may ask."""
        with self._lock:
            now = [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in self._parameters]
            if now != self._made_from:
                self._form, self._made_from = self._convert(), now
            return self._form
