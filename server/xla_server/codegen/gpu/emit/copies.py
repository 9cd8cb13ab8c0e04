"""Unrolled loops for a GPU, with the copies of the body interleaved.

Loads of all copies then precede the first use, and stores to one array are adjacent, so that
neighbours become one access.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.expressions import Cell, Load, known
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.codegen.kernel_ir.walk import Path, read_by, walk


def is_copied(loop: stmt.For) -> bool:
    """Return whether a loop is unrolled, with a constant number in each copy."""
    has_breaks = any(isinstance(each, stmt.Break) for each, _ in walk(loop.body))
    return loop.unrolled and constant_iterations(loop) is not None and not has_breaks


def numbers_of(loop: stmt.For) -> Sequence[int]:
    """Return the numbers of a loop with constant bounds."""
    first, end = known(loop.low), known(loop.high)
    assert first is not None
    assert end is not None
    return range(first, end, loop.step)


def copies_of(loop: stmt.For) -> int:
    """Return the number of copies of the innermost statements of an unrolled loop."""
    inside = (
        copies_of(each) for each in loop.body if isinstance(each, stmt.For) and is_copied(each)
    )
    return len(numbers_of(loop)) * max(inside, default=1)


def is_interchangeable(loop: stmt.For) -> bool:
    """Return whether no iteration of a loop reads memory that it or another one changes.

    Each accumulator is changed by a single statement, each array by a single group of stores, whose
    order remains.
    """
    changed: Counter[object] = Counter()
    read: set[object] = set()
    group: object = None
    for statement, path in walk(loop.body):
        before, group = group, _group_of(statement, path)
        match statement:
            case stmt.Store(memory=memory):
                changed[memory] += group is None or group != before
            case stmt.Accumulate(cell=cell):
                changed[cell] += 1
            case stmt.Let() | stmt.For() | stmt.If():
                pass
            case _:
                return False
        for part in read_by(statement):
            if isinstance(part, Load):
                read.add(part.memory)
            elif isinstance(part, Cell):
                read.add(part)
    return all(count == 1 for count in changed.values()) and read.isdisjoint(changed)


def in_turn(statements: Sequence[stmt.Statement]) -> list[list[stmt.Statement]]:
    """Return statements in groups, each of which is for all copies before the next one.

    Neighbouring stores to one array are a group, in which copies follow each other as they did.
    """
    numbered = enumerate(statements)
    groups = itertools.groupby(numbered, lambda each: _group_of(each[1]) or each[0])
    return [[statement for _, statement in group] for _, group in groups]


def parts_of(
    body: Sequence[stmt.Statement],
) -> tuple[Sequence[stmt.Statement], Sequence[stmt.Statement], Sequence[stmt.Statement]]:
    """Return the loads that begin a body, with their indices, the rest, and the stores at its end.

    A store that has a guard is one of the rest.
    """
    loads = list(itertools.takewhile(_is_load, body))
    stores = list(itertools.takewhile(_group_of, reversed(body)))[::-1]
    return loads, body[len(loads) : len(body) - len(stores)], stores


def _is_load(statement: stmt.Statement) -> bool:
    if not isinstance(statement, stmt.Let):
        return False
    return isinstance(statement.expression, Load) or statement.value.type is Type.I64


def _group_of(statement: stmt.Statement, path: Path = ()) -> object:
    """Return what neighbouring stores of a group have in common; None for other statements."""
    if not isinstance(statement, stmt.Store) or statement.guard is not None:
        return None
    return statement.memory, id(path[-1]) if path else None
