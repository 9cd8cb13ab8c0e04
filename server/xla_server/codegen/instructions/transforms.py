"""Discrete Fourier transforms of kernels, by the pocketfft that numpy has compiled in.

numpy offers it to Python alone, as universal functions. Their loops are C functions without need
of the interpreter's lock: all they know is addresses. What the structure of a universal function
says is tested before it is believed; where numpy has none of them, before its version 2.0, or
others than expected, TRANSFORMS is empty.
"""

import ctypes
import importlib
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types

from xla_server.codegen.instructions.instruction import instruction

_CODES = {
    "fft": {"f32": "FfF", "f64": "DdD"},
    "ifft": {"f32": "FfF", "f64": "DdD"},
    "rfft_n_even": {"f32": "ffF", "f64": "ddD"},
    "rfft_n_odd": {"f32": "ffF", "f64": "ddD"},
    "irfft": {"f32": "Fff", "f64": "Ddd"},
}
"""The loops by function and real type, with the types of operand, factor and result."""

_ARGUMENTS = 9
_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_REAL = {"f32": ir.FloatType(), "f64": ir.DoubleType()}


class _UniversalFunction(ctypes.Structure):
    """The beginning of numpy's PyUFuncObject."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__),
        ("operand_count", ctypes.c_int),
        ("result_count", ctypes.c_int),
        ("argument_count", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("loop_count", ctypes.c_int),
        ("unused", ctypes.c_int),
        ("name", ctypes.c_void_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


def _loop(function: Any, name: str, codes: str) -> tuple[int, int] | None:
    """The addresses of a loop's code and of its data, 0 for none; None where it is not found."""
    if type(function).__basicsize__ < ctypes.sizeof(_UniversalFunction):
        return None
    inside = _UniversalFunction.from_address(id(function))
    counts = (inside.operand_count, inside.result_count, inside.argument_count)
    if counts != (2, 1, 3) or inside.loop_count != len(function.types):
        return None
    if ctypes.string_at(inside.name) != name.encode():
        return None
    numbers = bytes(np.dtype(code).num for code in codes)
    for number in range(inside.loop_count):
        if inside.types[3 * number : 3 * number + 3] == numbers:
            data = inside.data[number] if inside.data else None
            return int(inside.functions[number] or 0), int(data or 0)
    return None


def _is_right(address: int, data: int, function: Any, codes: str, sizes: tuple[int, int]) -> bool:
    """Whether a loop called by its address gives what the function gives."""
    operand = np.arange(1, 1 + 2 * sizes[0]).astype(codes[0]).reshape(2, -1)
    factor = np.array(0.5, codes[1])
    expected, found = (np.zeros((2, sizes[1]), codes[2]) for _ in range(2))
    function(operand, factor, out=expected)
    word = ctypes.c_ssize_t
    call = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(word)] * 3, ctypes.c_void_p)(address)
    strides = (operand.strides[0], 0, found.strides[0], operand.strides[1], found.strides[1])
    call(
        (word * 3)(operand.ctypes.data, factor.ctypes.data, found.ctypes.data),
        (word * 3)(2, *sizes),
        (word * 5)(*strides),
        data or None,
    )
    return bool(np.array_equal(found, expected)) and bool(expected.any())


def _transform(symbol: str, real: str, has_data: bool) -> Any:
    """Transform rows: (operand, result, rows, sizes of a row, strides of rows, of elements)."""

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        source, target, rows, size, new_size, rows_in, rows_out, step_in, step_out = (
            b.extract_value(args[0], n) for n in range(_ARGUMENTS)
        )
        with b.goto_entry_block():
            place = b.alloca(_REAL[real])
            tables = [b.alloca(ir.ArrayType(_WORD, count)) for count in (3, 3, 5)]
        b.store(args[1], place)
        zero = ir.Constant(_WORD, 0)
        contents = (
            (source, b.ptrtoint(place, _WORD), target),
            (rows, size, new_size),
            (rows_in, zero, rows_out, step_in, step_out),
        )
        for table, words in zip(tables, contents, strict=True):
            for n, word in enumerate(words):
                b.store(word, b.gep(table, [zero, ir.Constant(_WORD, n)]))
        pointer = _BYTE.as_pointer()
        data = ir.Constant(pointer, None)
        if has_data:
            name = f"{symbol}_data"
            data = b.module.globals.get(name) or ir.GlobalVariable(b.module, _BYTE, name)
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 4)
        function = b.module.globals.get(symbol) or ir.Function(b.module, kind, symbol)
        b.call(function, [*(b.bitcast(table, pointer) for table in tables), data])
        return context.get_dummy_value()

    factor = types.float32 if real == "f32" else types.float64

    def typed(typing_context, numbers, scale):  # type: ignore[no-untyped-def]
        return types.void(numbers, factor), generate

    typed.__name__ = symbol
    made = instruction(typed)
    made.is_long = True
    return made


def _transforms() -> dict[str, Any]:
    """The transforms of kernels, all or none of them."""
    try:
        module = importlib.import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        return {}
    found = {}
    for name, loops in _CODES.items():
        function = getattr(module, name, None)
        for real, codes in loops.items():
            loop = None if function is None else _loop(function, name, codes)
            sizes = {"rfft_n_even": (6, 4), "rfft_n_odd": (5, 3), "irfft": (4, 6)}
            if loop is None or not loop[0]:
                return {}
            if not _is_right(*loop, function, codes, sizes.get(name, (5, 5))):
                return {}
            symbol = f"xla_{name}_{real}"
            llvm.add_symbol(symbol, loop[0])
            if loop[1]:
                llvm.add_symbol(f"{symbol}_data", loop[1])
            found[f"{name}_{real}"] = _transform(symbol, real, bool(loop[1]))
    return found


TRANSFORMS: dict[str, Any] = _transforms()
"""Every function of this module by its name in kernels."""
