"""Compile the functions that Python calls, for one precision, into an object file.

``python -m dragoman.engines.compiled.build float32 > code.o``. `kernels/compiling.py` runs this, with the processor
in numba's environment variables.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import numpy as np
from llvmlite import binding, ir
from numba import from_dtype, types
from numba.core import cgutils, codegen, cpu
from numba.core.compiler_lock import global_compiler_lock

from dragoman.engines.compiled.beams import decode_steps, finished_path
from dragoman.engines.compiled.layers import encode
from dragoman.engines.compiled.layout import NUMBER_TYPES
from dragoman.engines.compiled.targets import decode_targets, score_labels
from dragoman.kernels.llvm import LONG, array_value


@global_compiler_lock  # type: ignore[untyped-decorator]
def compile_object(functions: Mapping[str, tuple[Any, tuple[Any, ...]]]) -> bytes:
    """Compile functions of `jit.py`, given by name with the types of their arguments, for the processor of numba's
    settings.

    Call this in a process of its own: functions that numba compiles in this process cannot be called afterwards.
    """
    _leave_out_python()
    compiled = {name: _compile(*one) for name, one in functions.items()}
    first = next(iter(compiled.values()))
    context, generator = first.target_context, first.library.codegen
    library = generator.create_library("entries")
    module = library.create_ir_module("entries")
    for name, result in compiled.items():
        library.add_linking_library(result.library)
        _write_entry(context, module, name, result.fndesc)
    library.add_ir_module(module)
    library.finalize()
    made = library._final_module
    for part in (*made.functions, *made.global_variables):
        if not part.is_declaration and part.name not in functions:
            part.linkage = "internal"
    machine = binding.Target.from_triple(made.triple).create_target_machine(
        cpu=generator._get_host_cpu_name(), features=generator._tm_features, opt=3, reloc="pic", codemodel="default"
    )
    return bytes(machine.emit_object(made))


def _leave_out_python() -> None:
    """Keep numba from generating wrappers for Python and executable code for each function: half of its time."""
    overrides: dict[Any, dict[str, Any]] = {
        codegen.JITCPUCodegen: {"_add_module": lambda self, module: None},
        codegen.JITCodeLibrary: {"_finalize_specific": lambda self: None},
        cpu.CPUContext: {
            "create_cpython_wrapper": lambda self, *arguments, **options: None,
            "create_cfunc_wrapper": lambda self, *arguments, **options: None,
            "get_executable": _get_no_executable,
        },
    }
    for changed, methods in overrides.items():
        for name, method in methods.items():
            setattr(changed, name, method)


def _get_no_executable(_context: Any, library: Any, _description: Any, _environment: Any) -> Any:
    library._ensure_finalized()
    return [].append  # numba needs a built-in function as a key, another one each time, and does not call it


def _compile(function: Any, argument_types: tuple[Any, ...]) -> Any:
    function.compile(argument_types)
    return function.overloads[argument_types]


def _write_entry(context: Any, module: Any, name: str, description: Any) -> None:
    """Generate `int64 name(int64 *words)`, which calls a function and returns its result, or 0."""
    entry = ir.Function(module, ir.FunctionType(LONG, [LONG.as_pointer()]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    kinds, result_type = description.argtypes, description.restype
    function_type = context.call_conv.get_function_type(result_type, kinds)
    called = ir.Function(module, function_type, description.llvm_func_name)
    words = _read_words(builder, entry.args[0])
    arguments = [_read_argument(context, builder, kind, words) for kind in kinds]
    _, result = context.call_conv.call_function(builder, called, result_type, kinds, arguments)
    builder.ret(ir.Constant(LONG, 0) if result_type == types.none else result)


def _read_words(builder: Any, table: Any) -> Iterator[Any]:
    """Generate the code that reads the words, one after the other."""
    position = 0
    while True:
        yield builder.load(builder.gep(table, [ir.Constant(LONG, position)]))
        position += 1


def _read_argument(context: Any, builder: Any, kind: Any, words: Iterator[Any]) -> Any:
    """Generate the code that makes one value of a numba type from its words."""
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [_read_argument(context, builder, part, words) for part in kind])
    if isinstance(kind, types.Array):
        address, *sizes = [next(words) for _ in range(1 + kind.ndim)]
        return array_value(context, builder, kind, address, sizes)
    word = next(words)
    if kind == types.float64:
        return builder.bitcast(word, ir.DoubleType())
    return cgutils.as_bool_bit(builder, word) if kind == types.boolean else word


_NUMBERS = {int: types.int64, float: types.float64, bool: types.boolean}
ENTRIES = (encode, decode_steps, finished_path, decode_targets, score_labels)
"""The functions that `engine.py` calls."""


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
