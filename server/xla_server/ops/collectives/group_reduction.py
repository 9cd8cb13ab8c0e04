"""Reductions of arrays with a computation of two scalars, in the order of a group.

Semantics: XLA's AllReduce on its CPU backend. A sum starts from 0, so that zeros add up to +0; BF16
is reduced in F32 and rounded once, F16 at each step. Other computations start from the first
operand. Maximum and minimum are HLO's own, which hand on NaN.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloComputation
from xla_server.ops.elementwise.elementwise_table import ROUNDED_SUMS
from xla_server.ops.evaluation import Array, Frame
from xla_server.ops.numerics.numeric import blocks_of
from xla_server.ops.numerics.scalar_function import UFUNC, plain_opcode
from xla_server.ops.numerics.subnormals import subnormals_as_zeros

_BLOCK = 1 << 16
"""Elements that are reduced at a time: what is read and written stays in a core's cache."""


def reduce_in_order(
    reducer: HloComputation, sources: Sequence[Array], result: Array, frame: Frame
) -> None:
    """Write the reduction of two or more equal arrays, element by element, into `result`.

    Large ones are lines or matrices. Raises what the reducer's evaluators raise.
    """
    kind = reducer.root.shape.element_type
    form = _form(reducer, kind)
    is_wide = form is not None and kind is ElementType.BF16
    dtype = np.dtype(np.float32) if is_wide else kind.dtype
    is_in_result = form is not None and dtype == result.dtype
    starts_from_zero = form is np.add and dtype.kind in "fc"
    with subnormals_as_zeros(), np.errstate(all="ignore"):
        for block in blocks_of(result.shape, _BLOCK):
            operands = (source[block].astype(dtype, copy=False) for source in sources)
            accumulator = result[block] if is_in_result else np.empty(result[block].shape, dtype)
            first = next(operands)
            start: Array = np.zeros((), dtype) if starts_from_zero else next(operands)
            if form is None:
                accumulator = cast(Array, frame.call_lifted(reducer, [first, start]))
            else:
                form(first, start, out=accumulator)
            for operand in operands:
                if form is None:
                    accumulator = cast(Array, frame.call_lifted(reducer, [accumulator, operand]))
                else:
                    form(accumulator, operand, out=accumulator)
            if not is_in_result:
                np.copyto(result[block], accumulator, casting="unsafe")


def _form(reducer: HloComputation, kind: ElementType) -> Any:
    """The numpy function of a reducer that is one operation on its parameters, if it has one."""
    opcode = plain_opcode(reducer)
    is_rounded = kind.is_floating or kind.is_complex
    is_plain = kind.dtype.isbuiltin == 1 or kind is ElementType.BF16
    if opcode is None or not is_plain or (is_rounded and opcode not in ROUNDED_SUMS):
        return None
    return UFUNC.get(opcode)
