"""Questions that passes ask of instructions, constants and computations."""

import math
from collections.abc import Sequence

from xla_contract.ops.elementwise.elementwise import BINARY
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.splat import literal_of as literal_of
from xla_server.ir.splat import splat as splat


def is_empty(instruction: HloInstruction) -> bool:
    """Return whether an array has no elements."""
    return instruction.shape.is_array and 0 in instruction.shape.dimensions


def count(dimensions: Sequence[int]) -> int:
    """The number of elements."""
    return math.prod(dimensions)


def combiner(computation: HloComputation) -> Opcode | None:
    """The operation that a computation of two scalars of one type is, or None."""
    root, parameters = computation.root, computation.parameters
    if len(parameters) != 2 or len(root.operands) != 2:
        return None
    if set(root.operands) != set(parameters) or root.opcode not in BINARY:
        return None
    types = {part.shape.element_type for part in (root, *parameters)}
    return root.opcode if len(types) == 1 else None
