"""Flushing of subnormal numbers: kernels take them for zero, as XLA does on processors.

The mode belongs to a thread. Native code sets it on entry and restores the old one before it
returns, so Python and its libraries never run in it.
"""

import platform
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.instructions.instruction import instruction_of

_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_IS_ARM = platform.machine().lower() in ("aarch64", "arm64")
_FLUSH_X86 = 0x8040
"""Bits of MXCSR: FTZ for results, DAZ for operands."""
_FLUSH_ARM = 1 << 24
"""Bit FZ of FPCR."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _mxcsr(builder: Any, name: str, slot: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(ir.IntType(8))])
    symbol = f"llvm.x86.sse.{name}"
    function = builder.module.globals.get(symbol) or ir.Function(builder.module, kind, symbol)
    builder.call(function, [builder.bitcast(slot, ir.PointerType(ir.IntType(8)))])


def _read(builder: Any) -> Any:
    if _IS_X86:
        with builder.goto_entry_block():
            slot = builder.alloca(_I32)
        _mxcsr(builder, "stmxcsr", slot)
        return builder.zext(builder.load(slot), _I64)
    if _IS_ARM:
        return builder.asm(ir.FunctionType(_I64, []), "mrs $0, fpcr", "=r", [], True)
    return ir.Constant(_I64, 0)


def _write(builder: Any, mode: Any) -> None:
    if _IS_X86:
        with builder.goto_entry_block():
            slot = builder.alloca(_I32)
        builder.store(builder.trunc(mode, _I32), slot)
        _mxcsr(builder, "ldmxcsr", slot)
    elif _IS_ARM:
        builder.asm(ir.FunctionType(ir.VoidType(), [_I64]), "msr fpcr, $0", "r", [mode], True)


@instruction_of(types.int64())
def flush_subnormals(builder: Any) -> Any:
    """Take subnormal numbers for zero from now on, and return the mode before."""
    before = _read(builder)
    _write(builder, builder.or_(before, ir.Constant(_I64, _FLUSH_X86 if _IS_X86 else _FLUSH_ARM)))
    return before


@instruction_of(types.void(types.int64))
def restore_mode(builder: Any, mode: Any) -> None:
    """Restore the mode that `flush_subnormals` returned."""
    _write(builder, mode)
