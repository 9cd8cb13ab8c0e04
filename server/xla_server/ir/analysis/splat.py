"""The single value of an array whose elements are all one constant."""

from typing import Any

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction


def literal_of(instruction: HloInstruction) -> "np.ndarray[Any, np.dtype[Any]] | None":
    """The array of a constant, or None."""
    if instruction.opcode is not Opcode.CONSTANT or not instruction.shape.is_array:
        return None
    value: np.ndarray[Any, np.dtype[Any]] = instruction.attributes.literal.value
    return value


def splat(instruction: HloInstruction) -> Any:
    """Return the value of a constant of equal elements, also below broadcasts; None for others."""
    while instruction.opcode in (Opcode.BROADCAST, Opcode.RESHAPE):
        (instruction,) = instruction.operands
    value = literal_of(instruction)
    return None if value is None or value.size != 1 else value.reshape(())[()]
