"""Compile the functions that Python calls, for one precision, into an object file.

``python -m dragoman.inference.compiled.build float32 > code.o``. `kernels/compiling.py` runs this, with the processor
in numba's environment variables.
"""

import inspect
import sys
from typing import Annotated, Any, get_args, get_origin

import numpy as np
from numba import from_dtype, types

from dragoman.inference.compiled.beams import decode_steps, finished_path
from dragoman.inference.compiled.layers import encode
from dragoman.inference.compiled.layout import NUMBER_TYPES
from dragoman.inference.compiled.targets import decode_targets, score_labels
from dragoman.kernels.objects import compile_object

_NUMBERS = {int: types.int64, float: types.float64, bool: types.boolean}
ENTRIES = (encode, decode_steps, finished_path, decode_targets, score_labels)
"""The functions that `engine.py` and `forced.py` call."""


def argument_types(function: Any, precision: str) -> tuple[Any, ...]:
    """numba's types of a function's arguments, from their annotations."""
    parameters = inspect.signature(function.py_func, eval_str=True).parameters.values()
    return tuple(_numba_type(one.annotation, precision) for one in parameters)


def _numba_type(annotation: Any, precision: str) -> Any:
    if annotation in _NUMBERS:
        return _NUMBERS[annotation]
    if get_origin(annotation) is Annotated:
        stored = get_args(annotation)[1]
        name = NUMBER_TYPES[precision].get(stored.numbers, stored.numbers)
        return types.Array(from_dtype(np.dtype(name)), stored.num_dimensions, "C")
    fields = inspect.get_annotations(annotation, eval_str=True).values()
    return types.BaseTuple.from_types([_numba_type(one, precision) for one in fields], annotation)


def write_object(precision: str) -> None:
    """Write the object file to standard output."""
    functions = {one.__name__: (one, argument_types(one, precision)) for one in ENTRIES}
    sys.stdout.buffer.write(compile_object(functions))


if __name__ == "__main__":
    write_object(sys.argv[1])
