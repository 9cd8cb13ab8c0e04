"""Sizes that a program computes from constants and from small integers among its arguments."""

import itertools
from typing import TypeAlias

from xla_contract.errors import XlaError
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.traversal import in_post_order
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.ops.evaluation import Array

LARGEST = 64
"""Largest array, in elements, from which sizes may be computed."""

_LONGEST = 256
"""Largest number of instructions that compute one size."""

_FOLLOWED = ELEMENTWISE | {
    Opcode.BROADCAST,
    Opcode.CONCATENATE,
    Opcode.CONSTANT,
    Opcode.RESHAPE,
    Opcode.SLICE,
    Opcode.TRANSPOSE,
}

ArgumentIndex: TypeAlias = tuple[int, int]
"""An array of an argument: the slot of the value, and the array's number in it."""


class KnownSizes:
    """Numbers computed from a program's arguments; valid only for the values in `guards`."""

    def __init__(self) -> None:
        self.guards: set[ArgumentIndex] = set()
        self._arguments: dict[HloInstruction, tuple[ArgumentIndex, Array]] = {}

    def bind(self, parameter: HloInstruction, index: ArgumentIndex, array: Array) -> None:
        """Bind a parameter of the program to an argument from which sizes may be computed."""
        if array.size <= LARGEST and parameter.shape.element_type.is_integer:
            self._arguments[parameter] = index, array

    def of(self, instruction: HloInstruction) -> int | None:
        """The number that an instruction computes; None if it is unknown before a run."""
        needed = self._needed(instruction)
        if needed is None:
            return None
        parameters = [part for part in needed if part in self._arguments]
        arguments = [self._arguments[part] for part in parameters]
        alone = HloComputation("size", 0, needed, instruction, tuple(parameters))
        try:
            value = evaluate(alone, [array for _, array in arguments])
        except XlaError:
            return None
        self.guards.update(index for index, _ in arguments)
        return int(value)  # type: ignore[arg-type]

    def _needed(self, instruction: HloInstruction) -> list[HloInstruction] | None:
        """Return the transitive operands of an instruction, operands first."""
        order = in_post_order(
            [instruction], lambda part: part.operands if self._is_followed(part) else ()
        )
        needed = list(itertools.islice(order, _LONGEST + 1))
        return needed if len(needed) <= _LONGEST and all(map(self._is_followed, needed)) else None

    def _is_followed(self, part: HloInstruction) -> bool:
        return part in self._arguments or (
            part.opcode in _FOLLOWED and part.shape.element_count <= LARGEST
        )
