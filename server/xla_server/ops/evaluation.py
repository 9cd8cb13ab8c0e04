"""Interface of evaluators, and of the interpreter to them.

Evaluators are the definition of each operation: written for obviousness in numpy, on logical arrays
(row major, no layout), never deriving the shape again.
"""

import enum
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
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


def zeros(shape: Shape) -> Value:
    """Return zeros of a shape: a value that was not sent, or the context of a half."""
    if shape.is_tuple:
        return tuple(map(zeros, shape.tuple_shapes))
    if shape.is_token:
        return TOKEN
    return np.zeros(shape.dimensions, shape.element_type.dtype)


GivenT = TypeVar("GivenT")
SharedT = TypeVar("SharedT")


class GroupCollective(NamedTuple):
    """An instruction at which a group of participants exchanges values.

    `members` are flattened ids in the order of the group. Participants that run different programs
    meet by `opcode` and `channel_id`.
    """

    instruction: str
    opcode: Opcode
    channel_id: int
    members: tuple[int, ...]


class Route(enum.Enum):
    """The ways to divide among members the parts of each other's arrays that they read."""

    WHOLE = enum.auto()
    """Every member reads the same of all others."""
    PARTS = enum.auto()
    """Every member reads parts of its own of some or all others."""


class Reduction(NamedTuple):
    """A reduction by one operation, of which hosts may each do a part, in any order.

    `reduce` makes new arrays, of these types, of what the members of one host gave. `total` makes,
    once all hosts have reduced these, what stands for the gift of a member; of one elsewhere it is
    given None.
    """

    opcode: Opcode
    dtypes: "Sequence[np.dtype[Any]]"
    reduce: "Callable[[Sequence[Any]], Sequence[Array]]"
    total: "Callable[[Any, Sequence[Array]], Any]"


Form: TypeAlias = "tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]"
"""The types and sizes of operands."""


class Crossing(NamedTuple):
    """The parts of arrays that members on several hosts read of each other, and write for all.

    Members are numbers in the order of the group. `absent` makes, of what a member gave, that of
    one on another host: arrays of equal sizes to receive what is read. `reads` are the parts of
    what was given by one member that another reads, or None if nothing is read. `writes` are the
    parts of what is shared that `work` writes for all by one member: for each its arrays, of equal
    content; None if each writes its own alone. `form` is that of what was given,
    equal for all members. `is_eager` says that hosts send it to each other at once.
    `reduction` is there if `share` also takes totals, and `work` then has nothing to write.
    """

    route: Route
    form: Form
    absent: Callable[[Any], Any]
    reads: Callable[[Any, int, int], "Sequence[Array]"] | None
    writes: Callable[[Any, int], "Sequence[Sequence[Array]]"] | None
    is_eager: bool = False
    reduction: Reduction | None = None


class Communicator(Protocol):
    """The participants of an execution, as one of them sees them."""

    @property
    def grid(self) -> DeviceGrid:
        """The grid that the program runs on; of one participant if it runs alone."""

    @property
    def replica_id(self) -> int:
        """The number of the copy of the program."""

    @property
    def partition_id(self) -> int:
        """The number of the part of the program."""

    def exchange(
        self,
        collective: GroupCollective,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None = None,
        crossing: Callable[[], Crossing] | None = None,
    ) -> SharedT:
        """Wait for all members of a collective, and return what `share` makes of what all gave.

        `share` is called once, by the last to arrive, with what was given in the order of the
        members; then `work`, if there is one, by each with its index in that order. No member
        leaves before all have worked: they may read what the others gave until then.
        `crossing` makes what says how members on several hosts exchange, where they do.

        Raises what another participant failed with, what cancelled the execution, and
        FailedPreconditionError if a member does not come.
        """

    def post(self, collective: GroupCollective, value: Value) -> None:
        """Leave a value, which is not copied, for the second member, without waiting for it.

        Raises what the execution failed with, and ResourceExhaustedError for too many values that
        were not taken.
        """

    def receive(self, collective: GroupCollective) -> Value:
        """Wait for the next value that the first member posts; raises as `exchange`."""


class Frame(Protocol):
    """The run an evaluator takes part in."""

    @property
    def participants(self) -> Communicator:
        """The participants of the execution."""

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

    def infeed(
        self, shape: Shape, instruction: HloInstruction, channel_id: int | None = None
    ) -> Value:
        """Wait for the next item of infeed, or of a channel from the host; it has this shape."""

    def outfeed(
        self,
        value: Value,
        shape: Shape,
        instruction: HloInstruction,
        channel_id: int | None = None,
    ) -> None:
        """Put a value into outfeed, or a channel to the host, waiting while it is full."""

    def send(self, channel_id: int, value: Value, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""

    def receive(self, channel_id: int, shape: Shape) -> Value:
        """Wait for the next value on a channel; it must have this shape."""

    def outside(self) -> AbstractContextManager[None]:
        """Mark a block that executes code of others, which may sleep."""

    def check_cancelled(self) -> None:
        """Raise CancelledError or DeadlineExceededError when the run is to stop."""


Evaluator: TypeAlias = Callable[[HloInstruction, Sequence[Value], Frame], Value | Deep[Value]]
"""Gives the value of an instruction. Those of calls, loops and conditionals, which may be nested to
any depth, are deep functions."""


def of_operands(function: Callable[..., Value]) -> Evaluator:
    """Return the evaluator of an operation whose value does not depend on the run.

    `function` takes the instruction and then one value for each operand.
    """

    @functools.wraps(function)
    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        return function(instruction, *operands)

    return evaluate
