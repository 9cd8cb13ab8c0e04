"""The evaluators of elementwise operations: rows of the table, as XLA's CPU backend has them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_op import KernelForm
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.ops.elementwise.subnormal_rule import (
    flushes_operands,
    flushes_results,
    unchanged_operand,
)
from xla_server.ops.evaluation import Evaluator, Frame, Value, of_operands
from xla_server.ops.numerics.numeric import FLUSHED, Array, flushed, in_blocks, narrowed, widened
from xla_server.ops.numerics.subnormals import subnormals_kept


def evaluate_elementwise(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Apply the row of the instruction's opcode to arrays of equal dimensions."""
    opcode = instruction.opcode
    element_type = instruction.operands[0].shape.element_type
    result_type = instruction.shape.element_type
    if element_type not in FLUSHED:
        return apply(opcode, element_type, operands, result_type)
    unchanged = unchanged_operand(instruction)
    if unchanged is not None:
        return operands[unchanged]
    flushes_before, flushes_after = flushes_operands(instruction), flushes_results(instruction)

    def applied(arrays: Sequence[Array]) -> Array:
        arrays = [widened(array, element_type) for array in arrays]
        if flushes_before:
            arrays = [flushed(array) for array in arrays]
            return apply(opcode, element_type, arrays, result_type)
        # Both the mode and what vector units make of it are numpy's affair, so it has neither.
        with subnormals_kept():
            result = apply(opcode, element_type, arrays, result_type)
        if flushes_after:
            return narrowed(flushed(widened(result, result_type)), result_type)
        return result

    return in_blocks(applied, [cast(Array, operand) for operand in operands], result_type.dtype)


def apply(
    opcode: Opcode,
    element_type: ElementType,
    operands: Sequence[Any],
    result_type: ElementType,
) -> "np.ndarray[Any, np.dtype[Any]]":
    """The elementwise function `opcode` of arrays of `element_type`; numpy broadcasting holds."""
    row = ROWS[opcode]
    if row.form is KernelForm.BITS:
        return np.asarray(row.function(*operands, element_type))
    operands = [widened(operand, element_type) for operand in operands]
    if element_type.is_complex and row.widens_complex:
        operands = [operand.astype(np.complex128, copy=False) for operand in operands]
    return narrowed(row.function_of(element_type)(*operands), result_type)


@of_operands
def evaluate_select(
    instruction: HloInstruction, predicate: Array, on_true: Array, on_false: Array
) -> Array:
    """Where the predicate holds on_true, elsewhere on_false."""
    return np.where(predicate, on_true, on_false)


EVALUATORS: Mapping[Opcode, Evaluator] = {
    **dict.fromkeys(ROWS, evaluate_elementwise),
    Opcode.SELECT: evaluate_select,
}
