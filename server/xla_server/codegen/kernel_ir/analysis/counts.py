"""Counts of a kernel's evaluations of each value, and its cost, from its statements.

A kernel may evaluate an element of an HLO instruction repeatedly: for each chunk of work items, for
each row, for each reader at another index. The count is exact for given sizes, and independent of
the decisions that led to the kernel.

Schedules, fusion and the division of a launch decide by the cost. A statement costs its operations
and accesses times the iterations of the loops around it, and a call the result of the routine's
cost function.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as Identities

from xla_contract.ops.elementwise.elementwise import ELEMENTWISE
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.analysis.known_numbers import Numbers
from xla_server.codegen.kernel_ir.routine import out_of_line
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import Path, read_by, walk
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.ops.elementwise.elementwise_table import ROWS

THREE_FRY = "three_fry"
"""The instruction that draws two random words, each at the cost of a transcendental function."""

_COST = {
    name: int(row.cost)
    for opcode, row in ROWS.items()
    for element_type, computed in itertools.product(ELEMENTWISE[opcode].types.members, Type)
    if element_type.is_complex == (computed is not computed.part)
    for function in {row.kernel_function(element_type, computed)} - {row.pred}
    for name in (function, out_of_line(function))
} | {THREE_FRY: 2 * CostClass.TRANSCENDENTAL}
"""Kernel function -> time in additions, for those slower than an addition."""


def cost_of(function: str) -> int:
    """Return the time of a kernel function, in additions."""
    return _COST.get(function, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Operations, in additions, and elements that are loaded from buffers or stored there."""

    operations: float = 0.0
    accesses: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.operations + other.operations, self.accesses + other.accesses)

    def __mul__(self, times: float) -> "Work":
        return Work(self.operations * times, self.accesses * times)

    @property
    def time(self) -> float:
        """The time in additions."""
        return self.operations + CostClass.ACCESS * self.accesses


@dataclasses.dataclass(frozen=True, slots=True)
class KernelWork:
    """Work of a kernel: of a call before its first work item, and of the mean work item."""

    prologue: Work
    item: Work

    @property
    def times(self) -> tuple[int, int]:
        """The time of a work item, at least 1, and of the prologue, in additions."""
        return max(1, round(self.item.time)), round(self.prologue.time)


def evaluations(
    body: Sequence[stmt.Statement], calls: int, kept: Identities[int] = frozenset()
) -> Mapping[int, float]:
    """Return the number of evaluations of each origin in a launch of `calls` calls.

    Statements of the identities `kept` take a value from a register.
    """
    found: dict[int, float] = {}
    # Paths end with the parent statement, and the rest of the path is known already.
    times: dict[int, float] = {}
    for statement, path in walk(body):
        around = times[id(path[-1])] * share_of(statement, path) if path else float(calls)
        match statement:
            case stmt.For(iterations=iterations) | stmt.While(expected=iterations):
                times[id(statement)] = around * iterations
            case stmt.ParallelFor(is_range=False, items=items, step=step):
                blocks = math.ceil(math.ceil(items / calls) / step)
                times[id(statement)] = float(items) if step == 1 else around * blocks
            case _:
                times[id(statement)] = around
        if id(statement) in kept:
            continue
        origin = getattr(statement, "origin", None)
        if origin is not None:
            found[origin] = found.get(origin, 0.0) + around
    return found


def share_of(statement: stmt.Statement, path: Path) -> float:
    """Return the share of executions of the test around a statement in which it is executed."""
    around = path[-1]
    if not isinstance(around, stmt.If) or around.share == 1:
        return 1.0
    is_other = any(each is statement for each in around.orelse)
    return 1 - around.share if is_other else around.share


def work_of(body: Sequence[stmt.Statement], kept: Identities[int] = frozenset()) -> KernelWork:
    """Return the work of a kernel; one without parallel loops is a single work item.

    Statements of the identities `kept` take a value from a register.

    Bounds and operands that depend on outer loops are evaluated halfway through these, in the first
    work item, which is a full one.
    """
    items = sum(each.items for each in body if isinstance(each, stmt.ParallelFor))
    numbers = Numbers({ir.START: 0, ir.STOP: 1})
    prologue = item = Work()
    times: dict[int, float] = {}
    for statement, path in walk(body):
        around = times[id(path[-1])] * share_of(statement, path) if path else 1.0
        if isinstance(statement, stmt.ParallelFor):
            times[id(statement)] = statement.items / items / statement.step
            if statement.axis is not None:
                numbers.names[statement.axis] = statement.first
            numbers.names[ir.STOP] = statement.first + statement.step
            continue
        times[id(statement)] = around * _executions(statement, numbers)
        if id(statement) in kept:
            continue
        work = _own_work(statement, numbers) * around
        if not items or (path and isinstance(path[0], stmt.ParallelFor)):
            item += work
        else:
            prologue += work
    return KernelWork(prologue, item)


def work_of_loops(part: stmt.ParallelFor) -> Mapping[int, tuple[float, Work]]:
    """Return the iterations of each loop in a parallel loop, and the work of one, by identity.

    It is that of the first work item, which is one iteration of the parallel loop itself.
    """
    numbers = Numbers({} if part.axis is None else {part.axis: part.first})
    iterations = {id(part): 1.0}
    times, totals = dict(iterations), {id(part): Work()}
    for statement, path in walk(part.body, (part,)):
        around = times[id(path[-1])] * share_of(statement, path)
        repeated = iterations[id(statement)] = _executions(statement, numbers)
        times[id(statement)], totals[id(statement)] = around * repeated, Work()
        work = _own_work(statement, numbers) * around
        for each in path:
            totals[id(each)] += work
    return {
        key: (count, totals[key] * (1 / times[key] if times[key] else 0))
        for key, count in iterations.items()
    }


def _executions(statement: stmt.Statement, numbers: Numbers) -> float:
    """Return the number of executions of a statement's body, and bind the names that it defines."""
    match statement:
        case stmt.Let(value=name, expression=expression) if name.type is Type.I64:
            numbers.names[name] = numbers.value(expression)
        case stmt.For(axis=axis, step=step, iterations=iterations):
            low, high = numbers.value(statement.low), numbers.value(statement.high)
            numbers.names[axis] = low
            if isinstance(low, int) and isinstance(high, int) and not _is_divided(statement):
                iterations = max(0, -(-(high - low) // step))
                numbers.names[axis] = low + step * max(0, (iterations - 1) // 2)
            return iterations
        case stmt.While(expected=expected):
            return expected
    return 1.0


def _is_divided(loop: stmt.For) -> bool:
    """Return whether a bound is a rounded quotient, so that work items differ by one iteration."""
    return isinstance(loop.high, ir.Apply) and loop.high.function == "whole_div"


def _own_work(statement: stmt.Statement, numbers: Numbers) -> Work:
    """Return the work of a statement without its nested statements.

    Integers that no node computes are free beside the accesses and iterations that use them, and so
    are accesses to the stack and shared arrays, which stay in L1.
    """
    operations = accesses = 0.0
    node = None
    if isinstance(statement, stmt.Let) and statement.origin is not None:
        node = statement.expression
    for part in read_by(statement):
        match part:
            case ir.Apply(function=function, type=kind) if kind is not Type.I64 or part is node:
                operations += cost_of(function)
            case ir.Load(memory=memory) if not isinstance(memory, ir.StackArray | ir.SharedArray):
                accesses += 1
    match statement:
        case stmt.Accumulate(function=function):
            operations += cost_of(function)
        case stmt.Store(memory=memory) if not isinstance(memory, ir.StackArray | ir.SharedArray):
            accesses += 1
        case stmt.Call(routine=routine, operands=operands):
            arguments = zip(routine.names, map(numbers.value, operands), strict=True)
            accesses += routine.work({name: n for name, n in arguments if isinstance(n, int)})
    return Work(operations, accesses)
