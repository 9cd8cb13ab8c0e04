"""The loop IR run by Python over numpy buffers: what each node of a kernel means.

`run` executes a kernel as emitted machine code does, for a range of work items. Values are numpy
scalars of the exact type, so that results are equal to the last bit wherever the IR defines the
order of operations. Accumulations of `Order.ANY` are done in the order of the loop.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tests.example_platform.formulas import UnsupportedKernelError, formula
from tests.example_platform.instructions import INSTRUCTIONS
from tests.example_platform.memory import TABLE, AccessError, Array, Arrays
from tests.example_platform.routines.table import ADDRESSES, execute, is_defined
from xla_server.buffers.code import KernelCode
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.kernel_ir.expressions import (
    BUFFERS,
    START,
    STOP,
    Address,
    Apply,
    Buffer,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Memory,
    Quotient,
    Region,
    Remainder,
    Usage,
    Value,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Barrier,
    Break,
    Call,
    Declare,
    For,
    If,
    Let,
    ParallelFor,
    Set,
    Shuffle,
    Statement,
    Stop,
    Store,
    While,
    blocks_of,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import read_by, walk
from xla_server.execution import cancellation_flag
from xla_server.ops.numerics.subnormals import subnormals_as_zeros

Scalar: TypeAlias = Any
"""A numpy scalar."""


class _Stopped(Exception):  # noqa: N818
    """The execution was cancelled."""


class _Left(Exception):  # noqa: N818
    """A `Break` leaves the innermost loop."""


@dataclasses.dataclass(slots=True)
class Frame:
    """The state of one call of a kernel: its names, its memory, and the work item it does."""

    arrays: Arrays
    names: dict[Value | Cell, Scalar]
    is_divided: bool
    item: int | None = None


def run(kernel: KernelCode, buffers: Sequence[np.ndarray[Any, Any]], start: int, stop: int) -> None:
    """Do the work items from `start` to `stop` of a kernel.

    Args:
        kernel: A kernel of the loop IR.
        buffers: The bytes of each argument.
        start: The number of the first work item.
        stop: The number behind the last.

    Raises:
        UnsupportedKernelError: the kernel is no IR, or calls what the walker does not define.
        AccessError: it accesses what its memory or its work item does not have.
    """
    checked = supported(kernel)
    named = {each.number: each for each in checked.buffers}
    # A table of addresses may name further ones, which are read.
    found = [named.get(number, Buffer(number, Usage.READ)) for number in range(len(buffers))]
    arrays = [Array(each, array) for each, array in zip(found, buffers, strict=True)]
    arrays += [Array.of_bytes(each) for each in (*checked.stack, *checked.shared)]
    space = Arrays(arrays)
    names: dict[Value | Cell, Scalar] = {
        START: np.int64(start),
        STOP: np.int64(stop),
        BUFFERS: np.int64(space.address(TABLE)),
    }
    frame = Frame(space, names, len(checked.parts) > 1)
    with np.errstate(all="ignore"), subnormals_as_zeros():
        try:
            _run_all(checked.body, frame)
        except _Stopped:
            return


def supported(kernel: KernelCode) -> Kernel:
    """Return a kernel that can be walked; raise UnsupportedKernelError for any other."""
    if not isinstance(kernel, Kernel):
        raise UnsupportedKernelError(
            f"a walked kernel must be of the loop IR (Kernel), got {type(kernel).__name__}"
        )
    for statement, _ in walk(kernel.body):
        _defined(STATEMENTS, statement)
        if isinstance(statement, Call) and not _is_routine(statement):
            _called(statement)
        if isinstance(statement, Accumulate):
            _accumulated(statement)
        for expression in read_by(statement):
            _defined(EXPRESSIONS, expression)
            if isinstance(expression, Apply):
                _applied(expression)
    return kernel


def _run_all(statements: Sequence[Statement], frame: Frame) -> None:
    for statement in statements:
        _defined(STATEMENTS, statement)(statement, frame)


def _defined(
    table: Mapping[type[Any], Callable[[Any, Frame], Scalar]], node: Statement | Expression
) -> Callable[[Any, Frame], Scalar]:
    found = table.get(type(node))
    if found is None:
        raise UnsupportedKernelError(
            f"a walked kernel must have nodes of the walker, got {type(node).__name__}"
        )
    return found


def _let(node: Let, frame: Frame) -> None:
    frame.names[node.value] = _value(node.expression, frame)


def _declare(node: Declare, frame: Frame) -> None:
    frame.names[node.cell] = _value(node.start, frame)


def _set(node: Set, frame: Frame) -> None:
    frame.names[node.cell] = _value(node.expression, frame)


def _accumulate(node: Accumulate, frame: Frame) -> None:
    operands = frame.names[node.cell], _value(node.operand, frame)
    frame.names[node.cell] = _accumulated(node)(*operands)


def _accumulated(node: Accumulate) -> Callable[..., Scalar]:
    return _instruction(node.function, (node.cell.type, node.operand.type), node.cell.type)


def _store(node: Store, frame: Frame) -> None:
    if node.guard is None or _value(node.guard, frame):
        array, first = _located(node.memory, node.type, frame)
        index, value = first + int(_value(node.index, frame)), _value(node.value, frame)
        array.store(node.type, index, value, frame.item)


def _for(node: For, frame: Frame) -> None:
    low, high = int(_value(node.low, frame)), int(_value(node.high, frame))
    try:
        for number in range(low, high, node.step):
            frame.names[node.axis] = np.int64(number)
            _run_all(node.body, frame)
    except _Left:
        return


def _while(node: While, frame: Frame) -> None:
    try:
        while _value(node.test, frame):
            _run_all(node.body, frame)
    except _Left:
        return


def _if(node: If, frame: Frame) -> None:
    _run_all(node.body if _value(node.test, frame) else node.orelse, frame)


def _break(_: Break, frame: Frame) -> None:
    raise _Left


def _stop(node: Stop, frame: Frame) -> None:
    if frame.arrays[node.flag].load(Type.I64, 0, None) == cancellation_flag.STOP:
        raise _Stopped


def _call(node: Call, frame: Frame) -> None:
    operands = [_value(each, frame) for each in node.operands]
    if _is_routine(node):
        found = execute(node.routine.name, frame.arrays, *map(int, operands))
        results = [np.int64(found)] if node.results else []
    else:
        found = _called(node)(*operands)
        results = [found] if len(node.results) == 1 else found
    frame.names.update(zip(node.results, results, strict=True))


def _is_routine(node: Call) -> bool:
    return is_defined(node.routine.name)


def _called(node: Call) -> Callable[..., Scalar]:
    """Return the instruction that a call has the results of."""
    if not node.results:
        raise UnsupportedKernelError(
            f"a walked kernel must call routines of the walker, got {node.routine.name}"
        )
    kinds = tuple(operand.type for operand in node.operands)
    results = tuple(each.type for each in node.results)
    given = node.routine.name, kinds
    return _instruction(*given, *results) if len(results) == 1 else formula(*given, results)


def _part(node: ParallelFor, frame: Frame) -> None:
    if node.is_range:
        _run_all(node.body, frame)
        return
    start, stop = int(frame.names[START]), int(frame.names[STOP])
    if node.group > 1:
        for first in range(start, stop, node.group):
            frame.arrays.forget_shared()
            _run_together(node.body, [_of_item(node, frame, first + n) for n in range(node.group)])
        return
    if frame.is_divided:
        start, stop = max(start, node.first), min(stop, node.first + node.items)
    if node.axis is None:
        stop = min(stop, start + 1)
    for item in range(start, stop, node.step):
        frame.item = item
        if node.axis is not None:
            frame.names[node.axis] = np.int64(item)
        _run_all(node.body, frame)
    frame.item = None


def _of_item(node: ParallelFor, frame: Frame, item: int) -> Frame:
    """Return the state of one work item of a group."""
    names = dict(frame.names)
    if node.axis is not None:
        names[node.axis] = np.int64(item)
    return Frame(frame.arrays, names, frame.is_divided, item)


def _run_together(statements: Sequence[Statement], frames: Sequence[Frame]) -> None:
    """Execute statements for all work items of a group, one after the other between barriers."""
    for statement in statements:
        inside = [statement, *(each for each, _ in walk(blocks_of(statement)))]
        if isinstance(statement, Shuffle):
            given = [_value(statement.operand, frame) for frame in frames]
            for number, frame in enumerate(frames):
                frame.names[statement.value] = given[number ^ statement.distance]
        elif isinstance(statement, Barrier):
            continue
        elif not any(isinstance(each, Shuffle | Barrier) for each in inside):
            for frame in frames:
                _run_all([statement], frame)
        elif isinstance(statement, For):
            for number in range(
                *_agreed(statement.low, statement.high, frames=frames), statement.step
            ):
                for frame in frames:
                    frame.names[statement.axis] = np.int64(number)
                _run_together(statement.body, frames)
        elif isinstance(statement, If):
            (is_chosen,) = _agreed(statement.test, frames=frames)
            _run_together(statement.body if is_chosen else statement.orelse, frames)
        else:
            raise UnsupportedKernelError(
                f"items must meet in loops of counters and branches, got {statement}"
            )


def _agreed(*expressions: Expression, frames: Sequence[Frame]) -> list[int]:
    """Return values that are the same for all work items of a group."""
    values = [[int(_value(each, frame)) for each in expressions] for frame in frames]
    if any(each != values[0] for each in values):
        raise AccessError(f"work items of a group must meet together, got {values}")
    return values[0]


def _exchange(node: Shuffle, _: Frame) -> None:
    raise AccessError(f"an exchange must be inside of a group, got {node.value.name}")


def _barrier(_: Barrier, __: Frame) -> None:
    raise AccessError("a barrier must be inside of a group")


STATEMENTS: Mapping[type[Statement], Callable[[Any, Frame], None]] = {
    Let: _let,
    Declare: _declare,
    Set: _set,
    Accumulate: _accumulate,
    Store: _store,
    For: _for,
    While: _while,
    If: _if,
    Break: _break,
    Stop: _stop,
    Call: _call,
    Shuffle: _exchange,
    Barrier: _barrier,
    ParallelFor: _part,
}
"""The function that executes each kind of statement."""


def _value(expression: Expression, frame: Frame) -> Scalar:
    return _defined(EXPRESSIONS, expression)(expression, frame)


def _named(node: Value | Cell, frame: Frame) -> Scalar:
    return frame.names[node]


def _const(node: Const, frame: Frame) -> Scalar:
    return CONSTANTS[node.type](*node.parts)


def _index(node: Index, frame: Frame) -> Scalar:
    total = node.constant
    for term, factor in node.terms:
        total += factor * int(_value(term, frame))
    return np.int64(total)


def _quotient(node: Quotient, frame: Frame) -> Scalar:
    return np.int64(_value(node.operand, frame)) // node.divisor


def _remainder(node: Remainder, frame: Frame) -> Scalar:
    return np.int64(_value(node.operand, frame)) % node.divisor


def _apply(node: Apply, frame: Frame) -> Scalar:
    operands = [_value(operand, frame) for operand in node.operands]
    if node.function in SPILLED:
        return np.int64(frame.arrays.spill(SPILLED[node.function](operands[0])))
    return _applied(node)(*operands)


SPILLED = {"alloca_i32": np.int32}
"""Instructions that put a number into memory and give its address."""


def _applied(node: Apply) -> Callable[..., Scalar]:
    if node.function in SPILLED:
        return SPILLED[node.function]
    if node.function in ADDRESSES:
        return lambda: np.int64(ADDRESSES[node.function])
    kinds = tuple(operand.type for operand in node.operands)
    return _instruction(node.function, kinds, node.type)


def _load(node: Load, frame: Frame) -> Scalar:
    array, first = _located(node.memory, node.type, frame)
    is_read = node.guard is None or _value(node.guard, frame)
    index = first + (int(_value(node.index, frame)) if is_read else 0)
    return array.load(node.type, index, frame.item)


def _address(node: Address, frame: Frame) -> Scalar:
    offset = node.byte_size * int(_value(node.index, frame))
    if isinstance(node.memory, Region):
        return np.int64(int(_value(node.memory.address, frame)) + offset)
    return np.int64(frame.arrays.address(node.memory) + offset)


def _located(memory: Memory, kind: Type, frame: Frame) -> tuple[Array, int]:
    """Return the array that memory is in, and the number of its first element there."""
    if not isinstance(memory, Region):
        return frame.arrays[memory], 0
    array, offset = frame.arrays.located(int(_value(memory.address, frame)))
    if offset % kind.byte_size:
        raise AccessError(f"an address of {kind} must be aligned, got byte {offset}")
    return array, offset // kind.byte_size


EXPRESSIONS: Mapping[type[Expression], Callable[[Any, Frame], Scalar]] = {
    Value: _named,
    Cell: _named,
    Const: _const,
    Index: _index,
    Quotient: _quotient,
    Remainder: _remainder,
    Apply: _apply,
    Load: _load,
    Address: _address,
}
"""The value of each kind of expression."""


def _instruction(name: str, operands: tuple[Type, ...], result: Type) -> Callable[..., Scalar]:
    return INSTRUCTIONS.get(name) or formula(name, operands, result)
