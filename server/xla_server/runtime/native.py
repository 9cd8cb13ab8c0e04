"""Building blocks of the runtime's native code: calls of C and of kernels, atomic numbers.

Native code names C functions by symbols, never by addresses, so that it can be kept on disk.
"""

import ctypes
import functools
import platform
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import njit, types

from xla_server.codegen.instructions.instruction import instruction

_I64 = ir.IntType(64)

HAS_CYCLES = platform.machine().lower() in ("x86_64", "amd64")
"""True if `cycles` counts: on other processors user code cannot read the counter."""


def _pointer(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, ir.PointerType(_I64)), [index])


@instruction
def call_kernel(typing_context, function, buffers, start, stop):  # type: ignore[no-untyped-def]
    """Call a kernel through its address: numba's convention, with room for what it returns."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        pointer = ir.PointerType(ir.IntType(8))
        kind = ir.FunctionType(ir.IntType(32), [pointer, pointer, _I64, _I64, _I64])
        with builder.goto_entry_block():
            returned = builder.alloca(_I64)
            raised = builder.alloca(_I64)
        target = builder.inttoptr(args[0], ir.PointerType(kind))
        room = [builder.bitcast(place, pointer) for place in (returned, raised)]
        builder.call(target, [*room, *args[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


def foreign(symbol: str, argument_count: int) -> Any:
    """A function of native code that calls a C function of pointers on a tuple of addresses."""
    kind = ir.FunctionType(ir.IntType(32), [_I64] * argument_count)

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        known = builder.module.globals.get(symbol)
        function = known or ir.Function(builder.module, kind, symbol)
        builder.call(function, [builder.extract_value(args[0], n) for n in range(argument_count)])
        return context.get_dummy_value()

    def typed(typing_context, arguments):  # type: ignore[no-untyped-def]
        return types.void(types.UniTuple(types.int64, argument_count)), generate

    return instruction(typed)


@instruction
def atomic_add(typing_context, address, index, value):  # type: ignore[no-untyped-def]
    """Add to an int64 in memory; the number that was there before."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        place = _pointer(builder, args[0], args[1])
        return builder.atomic_rmw("add", place, args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@instruction
def read(typing_context, address, index):  # type: ignore[no-untyped-def]
    """An int64 in memory that another thread may write."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        place = _pointer(builder, args[0], args[1])
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.int64, types.int64), generate


@instruction
def write(typing_context, address, index, value):  # type: ignore[no-untyped-def]
    """Set an int64 in memory that another thread may read."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        place = _pointer(builder, args[0], args[1])
        builder.store_atomic(args[2], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@instruction
def cycles(typing_context):  # type: ignore[no-untyped-def]
    """The processor's time stamp counter; 0 where programs may not read it."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        if not HAS_CYCLES:
            return ir.Constant(_I64, 0)
        kind = ir.FunctionType(_I64, [])
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind)
        return builder.call(counter, [])

    return types.int64(), generate


@instruction
def copy_bytes(typing_context, target, source, count):  # type: ignore[no-untyped-def]
    """Copy bytes between areas that do not overlap, or are the same."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        pointer = ir.PointerType(ir.IntType(8))
        target, source = (builder.inttoptr(address, pointer) for address in args[:2])
        function = builder.module.declare_intrinsic(
            "llvm.memmove",
            [pointer, pointer, _I64],
        )
        builder.call(function, [target, source, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


callee = njit(
    nogil=True,
    error_model="numpy",
    boundscheck=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""Decorates functions that native code calls; they are compiled with their first caller."""


def callable_at(address: int, argument_count: int) -> Callable[..., Any]:
    """A Python function that calls native code of that many int64, without Python's lock."""
    place = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, place, place, *[ctypes.c_int64] * argument_count)
    return functools.partial(kind(address), _NOWHERE, _NOWHERE)


_PLACE = (ctypes.c_int64 * 2)()
_NOWHERE = ctypes.addressof(_PLACE)
"""Address for results and exceptions of native code, which has none."""
