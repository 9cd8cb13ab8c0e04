"""Routines that are functions of Python, executed by Python on the memory of the walker.

Their functions are made anew, with the instructions that they call defined by the walker. Whole
numbers are numpy's or Python's; both are converted where an instruction takes them.
"""

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types as numba_types
from numba.core.dispatcher import Dispatcher

from tests.example_platform.formulas import formula
from tests.example_platform.instructions import INSTRUCTIONS
from tests.example_platform.memory import DTYPES, Arrays
from tests.processors import HOST
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.instructions.blas import LibraryRoutine
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.instructions.memory import COMPUTED
from xla_server.codegen.kernel_ir.routine import arguments_of
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.execution import cancellation_flag as run_word

Execute = Callable[..., Any]
"""Executes a routine on memory: its name, the memory and the operands."""

NAMES = {
    id(each): name for table in (ARITHMETIC, vocabulary(HOST).names) for name, each in table.items()
}
_TYPES = {dtype: kind for kind, dtype in DTYPES.items()}
_COMPUTED = {computed: Type(kind) for kind, computed in COMPUTED.items()}
_ON_MEMORY = {"copy_bytes", "clear_bytes", "call_at"}
_LOADS, _STORES = ("load", "reload", "kept", "peek"), ("store", "keep", "poke")


class PythonFunctions:
    """The functions of Python over one memory; `execute` does the routines that they call."""

    def __init__(self, arrays: Arrays, execute: Execute) -> None:
        self._arrays, self._execute = arrays, execute
        self._made: dict[int, Any] = {}

    def called(self, function: Any, words: Sequence[int]) -> Any:
        """Return the result of a function, given a word for each of its parameters."""
        function = getattr(function, "py_func", function)
        records = arguments_of(function, iter(words), lambda fields, record: record(*fields))
        return self.made(function)(*records)

    def made(self, value: Any) -> Any:
        """Return a function, instruction or constant as the walker has it."""
        function = value.py_func if isinstance(value, Dispatcher) else value
        if isinstance(function, Instruction):
            return self._instruction(function)
        if not isinstance(function, types.FunctionType):
            return value
        found = self._made.get(id(function))
        if found is None:
            names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
            known = {name: self.made(each) for name, each in names.items() if each is not None}
            cells = (types.CellType(self.made(c.cell_contents)) for c in function.__closure__ or ())
            known["__builtins__"] = function.__globals__["__builtins__"]
            found = types.FunctionType(function.__code__, known, closure=tuple(cells))
            self._made[id(function)] = found
        return found

    def _instruction(self, called: Instruction) -> Callable[..., Any]:
        name = NAMES.get(id(called), called.__name__)
        verb, _, kind = name.rpartition("_")
        if verb in _LOADS:
            return lambda at, index: self._arrays.load(Type(kind), int(at), int(index))
        if verb in _STORES:
            return lambda at, index, value: self._arrays.store(
                Type(kind), int(at), int(index), value
            )
        match name:
            case "watch_i64":
                return lambda at: int(self._arrays.load(Type.I64, int(at), 0) == run_word.STOP)
            case "alloca":
                return lambda size: self._arrays.spill(np.zeros(int(size), np.uint8))
            case _ if isinstance(called, LibraryRoutine):
                return lambda *operands: self._execute(
                    name, self._arrays, *map(self._argument, called.form, operands)
                )
            case _ if name in INSTRUCTIONS:
                return lambda *operands: INSTRUCTIONS[name](*map(scalar, operands))
            case _ if isinstance(called, SharedFunction) or name in _ON_MEMORY:
                return lambda *operands: self._execute(name, self._arrays, *map(int, operands))
        return lambda *operands: applied(name, called, [scalar(each) for each in operands])

    def _argument(self, way: str, value: Any) -> int:
        """Return an argument of a library's routine: an address."""
        if way == "a":
            return int(value)
        return self._arrays.spill(np.int32(value) if way == "n" else value)


def scalar(operand: Any) -> Any:
    """Return a numpy scalar: numbers of Python are indices or truth values."""
    if isinstance(operand, bool):
        return np.bool_(operand)
    return np.int64(operand) if isinstance(operand, int) else operand


def applied(
    name: str, called: Instruction, operands: Sequence[Any], code: Instruction | None = None
) -> Any:
    """Return the results of an instruction: one, or a tuple.

    Args:
        name: The instruction's name in kernels.
        called: The instruction, which has the types of results.
        operands: Numpy scalars.
        code: The instruction whose LLVM code is run; by default the one that processors have.
    """
    kinds = tuple(_TYPES[each.dtype] for each in operands)
    given = called.signature(None, tuple(COMPUTED[kind] for kind in kinds)).return_type
    is_tuple = isinstance(given, numba_types.UniTuple)
    results = tuple(_COMPUTED[each] for each in given) if is_tuple else _COMPUTED[given]
    return formula(name, kinds, results, code)(*operands)
