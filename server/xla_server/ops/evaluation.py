"""Interface of evaluators, and of the interpreter to them.

Evaluators are the definition of each operation: written for obviousness in numpy, on logical arrays
(row major, no layout), never deriving the shape again.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xla_contract.types.shape import Shape
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation, HloInstruction

Array: TypeAlias = NDArray[np.generic]


class Token:
    """The value of a token; it only orders side effects."""

    __slots__ = ()


TOKEN = Token()

Value: TypeAlias = Array | Token | tuple["Value", ...]
"""An array has its element type's numpy dtype and exactly its shape's dimensions; where they are
dynamic, the sizes of the run. Evaluators may return views of their operands and never write to an
operand."""


class Frame(Protocol):
    """The run an evaluator takes part in."""

    replica_id: int
    partition_id: int

    @property
    def random(self) -> np.random.Generator:
        """The source of the execution's random numbers."""

    def advance_state(self, instruction: HloInstruction, delta: int) -> int:
        """The 128-bit state the program keeps for `instruction`, which is moved on by `delta`."""

    def call(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """Evaluate a computation on arguments, and give its root's value."""

    def enter(self, computation: HloComputation, arguments: Sequence[Value]) -> Deep[Value]:
        """Return the same as `call`, as a deep function (ir/explicit_stack.py)."""

    def call_lifted(self, computation: HloComputation, arguments: Sequence[Array]) -> Value:
        """Evaluate a computation on scalars for whole arrays of scalars at once.

        All arguments have one common shape; the result (or each element of a tuple) has it too.
        """

    def infeed(self, shape: Shape, instruction: HloInstruction) -> Value:
        """Wait for the next item of the device's infeed queue; it must have this shape."""

    def outfeed(self, value: Value, shape: Shape, instruction: HloInstruction) -> None:
        """Put a value into the device's outfeed queue, waiting while it is full."""

    def send(self, channel_id: int, value: Value, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""

    def receive(self, channel_id: int, shape: Shape) -> Value:
        """Wait for the next value on a channel; it must have this shape."""

    def check_cancelled(self) -> None:
        """Raise CancelledError or DeadlineExceededError when the run is to stop."""


Evaluator: TypeAlias = Callable[[HloInstruction, Sequence[Value], Frame], Value | Deep[Value]]
"""Gives the value of an instruction. Those of calls, loops and conditionals, which may be nested to
any depth, are deep functions."""


def of_arrays(function: Callable[..., Value]) -> Evaluator:
    """Return the evaluator of an operation on arrays whose value does not depend on the run.

    `function` takes the instruction and then one array for each operand.
    """

    @functools.wraps(function)
    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        return function(instruction, *operands)

    return evaluate
