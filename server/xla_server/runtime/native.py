"""Building blocks of the runtime's native code: calls of C and of kernels, atomic numbers.

Native code names C functions by symbols, never by addresses, so that it can be kept on disk.
"""

import ctypes
import functools
import platform
import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types

from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.memory import MEMORY

_I64 = ir.IntType(64)

COPY_BYTES = 1 << 18
"""Size of a chunk of a large copy, in bytes: the unit in which threads share it."""

_word = MEMORY["peek_i64"]

HAS_CYCLES = platform.machine().lower() in ("x86_64", "amd64")
"""True if `cycles` counts: on other processors user code cannot read the counter."""


def _pointer(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, ir.PointerType(_I64)), [index])


@instruction_of(types.void(*[types.int64] * 4))
def call_kernel(builder: Any, function: Any, buffers: Any, start: Any, stop: Any) -> None:
    """Call a kernel through its address, with numba's calling convention."""
    pointer = ir.PointerType(ir.IntType(8))
    kind = ir.FunctionType(ir.IntType(32), [pointer, pointer, _I64, _I64, _I64])
    with builder.goto_entry_block():
        returned = builder.alloca(_I64)
        raised = builder.alloca(_I64)
    target = builder.inttoptr(function, ir.PointerType(kind))
    arguments = [builder.bitcast(argument, pointer) for argument in (returned, raised)]
    builder.call(target, [*arguments, buffers, start, stop])


def foreign(symbol: str, argument_count: int) -> Any:
    """Return a native function that calls a C function of pointers on a tuple of addresses."""
    kind = ir.FunctionType(ir.IntType(32), [_I64] * argument_count)

    @instruction_of(types.void(types.UniTuple(types.int64, argument_count)))
    def call(builder: Any, addresses: Any) -> None:
        known = builder.module.globals.get(symbol)
        function = known or ir.Function(builder.module, kind, symbol)
        builder.call(function, [builder.extract_value(addresses, n) for n in range(argument_count)])

    return call


@instruction_of(types.int64(types.int64, types.int64, types.int64))
def atomic_add(builder: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to an int64 in memory and return the value before the addition."""
    pointer = _pointer(builder, address, index)
    return builder.atomic_rmw("add", pointer, value, "seq_cst")


@instruction_of(types.int64(types.int64, types.int64))
def read(builder: Any, address: Any, index: Any) -> Any:
    """Return an int64 in memory that another thread may write."""
    pointer = _pointer(builder, address, index)
    return builder.load_atomic(pointer, "seq_cst", 8)


@instruction_of(types.void(types.int64, types.int64, types.int64))
def write(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Set an int64 in memory that another thread may read."""
    pointer = _pointer(builder, address, index)
    builder.store_atomic(value, pointer, "seq_cst", 8)


@instruction_of(types.int64(types.int64, types.int64))
def quotient(builder: Any, dividend: Any, divisor: Any) -> Any:
    """Return the quotient, rounded down, of a number that is not negative by one above 0."""
    return builder.udiv(dividend, divisor)


@instruction_of(types.void())
def pause(builder: Any) -> None:
    """Write x86's PAUSE, the hint of a spin loop; nothing on other processors."""
    if HAS_CYCLES:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])


@instruction_of(types.int64())
def cycles(builder: Any) -> Any:
    """Return the processor's time stamp counter; 0 on processors without one for user code."""
    if not HAS_CYCLES:
        return ir.Constant(_I64, 0)
    kind = ir.FunctionType(_I64, [])
    counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind)
    return builder.call(counter, [])


def _nanoseconds(clock: int) -> Any:
    """Return a native function that reads a clock of the system in nanoseconds."""

    @instruction_of(types.int64())
    def read_clock(builder: Any) -> Any:
        with builder.goto_entry_block():
            time_spec = builder.alloca(_I64, 2)
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), time_spec.type])
        known = builder.module.globals.get("clock_gettime")
        function = known or ir.Function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.Constant(ir.IntType(32), clock), time_spec])
        seconds, rest = (
            builder.load(builder.gep(time_spec, [ir.Constant(_I64, number)])) for number in (0, 1)
        )
        return builder.add(builder.mul(seconds, ir.Constant(_I64, 10**9)), rest)

    return read_clock


wall_nanoseconds = _nanoseconds(time.CLOCK_MONOTONIC)
"""Time since some point of the past: some 25 ns, as Linux reads this clock in the process."""

thread_nanoseconds = _nanoseconds(time.CLOCK_THREAD_CPUTIME_ID)
"""Processor time of the calling thread: some 600 ns, as it is a system call."""


@instruction_of(types.void(types.int64, types.int64, types.int64))
def copy_bytes(builder: Any, target: Any, source: Any, count: Any) -> None:
    """Copy bytes between areas that are disjoint or the same."""
    pointer = ir.PointerType(ir.IntType(8))
    target, source = (builder.inttoptr(address, pointer) for address in (target, source))
    function = builder.module.declare_intrinsic("llvm.memmove", [pointer, pointer, _I64])
    builder.call(function, [target, source, count, ir.Constant(ir.IntType(1), 0)])


def copy_range(buffers: int, start: int, stop: int) -> None:
    """Copy bytes start to stop - 1 of the second buffer to the first; called like a kernel."""
    copy_bytes(_word(buffers, 0) + start, _word(buffers, 1) + start, stop - start)


callee = njit(
    nogil=True,
    error_model="numpy",
    boundscheck=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""Decorates functions that native code calls; they are compiled with their first caller."""


def callable_at(address: int, argument_count: int) -> Callable[..., Any]:
    """Return a Python function that calls native code of int64 arguments without the GIL."""
    pointer = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *[ctypes.c_int64] * argument_count)
    return functools.partial(kind(address), _SCRATCH_ADDRESS, _SCRATCH_ADDRESS)


_SCRATCH = (ctypes.c_int64 * 2)()
_SCRATCH_ADDRESS = ctypes.addressof(_SCRATCH)
"""Address for the result and exception that numba's convention writes; nothing reads them."""
