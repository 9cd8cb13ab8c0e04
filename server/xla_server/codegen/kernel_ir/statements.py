"""Statements of the loop IR."""

import dataclasses
import enum
from typing import TypeAlias

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.routine import Operands, Routine
from xla_server.codegen.kernel_ir.types import Type


class Order(enum.Enum):
    """The order in which an accumulator combines elements: ANY lets LLVM use vectors."""

    SEQUENTIAL = "sequential"
    ANY = "any"


@dataclasses.dataclass(frozen=True, slots=True)
class Let:
    """Bind a value. `origin` is the number of the graph node it evaluates, for counts."""

    value: ir.Value
    expression: ir.Expression
    origin: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Declare:
    """Declare a cell with an initial value."""

    cell: ir.Cell
    start: ir.Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Set:
    """Change a cell."""

    cell: ir.Cell
    expression: ir.Expression
    origin: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Accumulate:
    """cell = function(cell, operand). Where `order` is ANY the function allows reassociation."""

    cell: ir.Cell
    function: str
    operand: ir.Expression
    order: Order
    origin: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """Store an element of `type`, if `guard` holds."""

    memory: ir.Memory
    type: Type
    index: ir.Expression
    value: ir.Expression
    guard: ir.Expression | None = None
    origin: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class For:
    """A serial loop of `axis` from `low` up to `high`, not included.

    `iterations` is their mean number. If `unrolled`, it becomes copies of its body; if
    `vectorised`, vectors are requested of LLVM.
    """

    axis: ir.Value
    low: ir.Expression
    high: ir.Expression
    body: "tuple[Statement, ...]"
    iterations: float
    step: int = 1
    unrolled: bool = False
    vectorised: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class While:
    """A loop that runs while `test` holds, by estimate `expected` times."""

    test: ir.Expression
    body: "tuple[Statement, ...]"
    expected: float


@dataclasses.dataclass(frozen=True, slots=True)
class If:
    """Statements that are executed if `test` holds, and others if it does not.

    `share` is the fraction of executions in which the test holds. An unknown share is 1: both
    branches then count for each execution.
    """

    test: ir.Expression
    body: "tuple[Statement, ...]"
    orelse: "tuple[Statement, ...]" = ()
    share: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Break:
    """Leave the innermost loop."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """Return from the kernel if its execution was cancelled."""

    flag: ir.Buffer


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """Call a routine with an operand for each of its parameters, and bind its results if any."""

    routine: Routine
    operands: tuple[ir.Expression, ...]
    results: tuple[ir.Value, ...] = ()

    @classmethod
    def of(cls, routine: Routine, operands: Operands, results: tuple[ir.Value, ...] = ()) -> "Call":
        """Return the call with operands by the names of parameters.

        Raises:
            ValueError: a parameter has no operand, or one of another type, or there are further
                operands; or `results` have not the types of the routine's.
        """
        kinds = tuple(each.type for each in results)
        if kinds != routine.results:
            raise ValueError(
                f"results of {routine.name} must be {list(routine.results)}, got {list(kinds)}"
            )
        return cls(routine, routine.operands(operands), results)


@dataclasses.dataclass(frozen=True, slots=True)
class Shuffle:
    """Bind the operand of the work item whose number is this one's with the bit `distance` changed.

    All work items of a group execute it together: lanes of a warp on a GPU.
    """

    value: ir.Value
    operand: ir.Expression
    distance: int


@dataclasses.dataclass(frozen=True, slots=True)
class Barrier:
    """Wait for all work items of the group; each then sees the others' stores to shared arrays.

    All of them execute it together: threads of a block on a GPU.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class ParallelFor:
    """The parallel loop over `items` work items from number `first` on, `step` at a time.

    Each call executes those in its range. Without `axis` there is one item and no loop. If it
    `is_range`, the body is executed once for each call, and itself loops from START to STOP. Items
    of a `group` may exchange values and share arrays.
    """

    axis: ir.Value | None
    items: int
    body: "tuple[Statement, ...]"
    first: int = 0
    step: int = 1
    is_range: bool = False
    group: int = 1


Statement: TypeAlias = (
    Let
    | Declare
    | Set
    | Accumulate
    | Store
    | For
    | While
    | If
    | Break
    | Stop
    | Call
    | Shuffle
    | Barrier
    | ParallelFor
)


def blocks_of(statement: Statement) -> tuple[Statement, ...]:
    """Return the statements directly inside of one."""
    if isinstance(statement, If):
        return statement.body + statement.orelse
    return statement.body if isinstance(statement, For | While | ParallelFor) else ()


def expressions_of(statement: Statement) -> tuple[ir.Expression, ...]:
    """Return the expressions that a statement itself evaluates."""
    match statement:
        case Let() | Set():
            return (statement.expression,)
        case Declare():
            return (statement.start,)
        case Accumulate() | Shuffle():
            return (statement.operand,)
        case Store():
            guard = () if statement.guard is None else (statement.guard,)
            address = ir.addresses_of(statement.memory)
            return *address, statement.index, statement.value, *guard
        case For():
            return statement.low, statement.high
        case While() | If():
            return (statement.test,)
        case Call():
            return statement.operands
    return ()
