"""The value of each instruction of kernels, on numpy scalars of the exact type.

Integers wrap, x / 0 is all ones, x % 0 is x, and shifts past the width shift everything out, as in
XLA's CPU backend.
"""

import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.example_platform.formulas import fused
from tests.example_platform.memory import DTYPES
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.kernel_ir.types import Type
from xla_server.ops.elementwise.elementwise import apply
from xla_server.ops.elementwise.elementwise_op import KernelForm
from xla_server.ops.elementwise.elementwise_table import ROWS

Scalar = Any
"""A numpy scalar."""


def _is_integer(x: Scalar) -> bool:
    return isinstance(x, np.integer)


def _width(x: Scalar) -> int:
    return 1 if isinstance(x, np.bool_) else 8 * int(x.dtype.itemsize)


def _wrapped(number: int, like: Scalar) -> Scalar:
    """Return an integer of Python with the type of a scalar, modulo 2^width."""
    if isinstance(like, np.bool_):
        return np.bool_(number & 1)
    width = _width(like)
    bits = number & ((1 << width) - 1)
    is_negative = like.dtype.kind == "i" and bits >> (width - 1)
    return like.dtype.type(bits - (1 << width) if is_negative else bits)


def _bits(x: Scalar) -> int:
    return int(x) & ((1 << _width(x)) - 1)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Scalar, Scalar], Scalar]:
    def compute(x: Scalar, y: Scalar) -> Scalar:
        if isinstance(x, np.bool_):
            return _wrapped(function(int(x), int(y)), x)
        return function(x, y)

    return compute


def _divide(x: Scalar, y: Scalar) -> Scalar:
    if not _is_integer(x):
        return x / y
    return _wrapped(_quotient(int(x), int(y)) if y else -1, x)


def _quotient(x: int, y: int) -> int:
    """Return x / y towards zero."""
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


def _remainder(x: Scalar, y: Scalar) -> Scalar:
    if not _is_integer(x):
        return np.fmod(x, y)
    return _wrapped(int(x) - _quotient(int(x), int(y)) * int(y) if y else int(x), x)


def _evaluated(opcode: Opcode) -> Callable[..., Scalar]:
    """Return an operation as its evaluator has it, on operands of the exact type."""

    def compute(*operands: Scalar) -> Scalar:
        kind = ElementType.from_dtype(operands[0].dtype)
        return apply(opcode, kind, operands, ELEMENTWISE[opcode].result_type(kind))[()]

    return compute


def _select(predicate: Scalar, on_true: Scalar, on_false: Scalar) -> Scalar:
    return on_true if predicate else on_false


def _cast(kind: Type) -> Callable[[Scalar], Scalar]:
    """Return the change to a type: integers wrap, floats are cut off and must fit."""

    def compute(x: Scalar) -> Scalar:
        if kind is Type.B1:
            return np.bool_(x != 0)
        if kind.is_integer:
            return _wrapped(int(x), DTYPES[kind].type(0))
        return x.astype(DTYPES[kind])

    return compute


def _reinterpret(kind: Type) -> Callable[[Scalar], Scalar]:
    return lambda x: x.view(DTYPES[kind])


INSTRUCTIONS: MappingProxyType[str, Callable[..., Scalar]] = MappingProxyType(
    {
        **{
            row.kernel: _evaluated(opcode)
            for opcode, row in ROWS.items()
            if row.form is not KernelForm.FUNCTION
        },
        "add": _arithmetic(operator.add),
        "sub": _arithmetic(operator.sub),
        "mul": _arithmetic(operator.mul),
        "add_in_any_order": operator.add,
        "mul_in_any_order": operator.mul,
        "div": _divide,
        "rem": _remainder,
        "neg": lambda x: x if isinstance(x, np.bool_) else -x,
        "absolute": np.abs,
        "bit_and": operator.and_,
        "bit_or": operator.or_,
        "bit_xor": operator.xor,
        "bit_not": operator.invert,
        "floor": np.floor,
        "ceil": np.ceil,
        "round_even": np.rint,
        "sqrt": np.sqrt,
        "copysign": np.copysign,
        "whole_div": lambda x, y: _wrapped(_bits(x) // _bits(y), x),
        "whole_mod": lambda x, y: _wrapped(_bits(x) % _bits(y), x),
        "narrow_div": lambda x, y: _wrapped(_bits(x) // _bits(y), x),
        "narrow_mod": lambda x, y: _wrapped(_bits(x) % _bits(y), x),
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
        "fma": fused,
        "select": _select,
        **{f"to_{kind}": _cast(kind) for kind in Type},
        **{f"bits_{kind}": _reinterpret(kind) for kind in Type if kind[0] in "iuf"},
    }
)
"""The instructions that are LLVM's own; `formulas` evaluates those that are written as formulas."""
