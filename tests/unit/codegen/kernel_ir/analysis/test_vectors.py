"""The choice of loops that may become vector code although they are short."""

import pytest

from tests.unit.codegen.kernel_ir.kernels import ITEM, READ, ROW, WRITE, ZERO
from xla_server.codegen.kernel_ir.analysis.vectors import is_of_lookups, is_of_stores
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Cell,
    Expression,
    Index,
    Load,
    Region,
    Usage,
    Value,
)
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Call,
    Declare,
    For,
    Let,
    Order,
    Set,
    Statement,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type

AXIS, OTHER = Value("i", Type.I64), Value("j", Type.I64)
ELEMENT, TOTAL = Value("x", Type.F32), Cell("s", Type.F32)
LET = Let(ELEMENT, Load(READ, Type.F32, AXIS))


def loop(*body: Statement, axis: Value = AXIS) -> For:
    return For(axis, Index(0), Index(15), body, 15)


def stored(value: Expression) -> Store:
    return Store(WRITE, Type.F32, AXIS, value)


NEXT = Apply("add", (TOTAL, ELEMENT), Type.F32)


@pytest.mark.parametrize(
    "body",
    [
        (stored(ZERO),),
        (LET, stored(ELEMENT), stored(ELEMENT)),
        # A cell that each iteration begins anew.
        (LET, Declare(TOTAL, ZERO), Set(TOTAL, NEXT), stored(TOTAL)),
        # A cell from outside of the loop that none of its statements changes.
        (LET, stored(TOTAL)),
    ],
)
def test_loops_of_values_and_stores(body: tuple[Statement, ...]) -> None:
    assert is_of_stores(loop(*body))


@pytest.mark.parametrize(
    "body",
    [
        # Nothing is stored.
        (LET,),
        # The next iteration reads what this one has computed.
        (LET, Set(TOTAL, NEXT), stored(TOTAL)),
        (stored(TOTAL), Set(TOTAL, ZERO)),
        (LET, Accumulate(TOTAL, "add", ELEMENT, Order.SEQUENTIAL), stored(ZERO)),
        (stored(ZERO), loop(stored(ZERO), axis=OTHER)),
        (stored(ZERO), Call(Routine("swap", ()), ())),
        # Stores under a guard, to the stack and to computed addresses.
        (Store(WRITE, Type.F32, AXIS, ZERO, guard=Apply("lt", (AXIS, ITEM), Type.B1)),),
        (Store(ROW, Type.F32, AXIS, ZERO),),
        (Store(Region(ITEM, Usage.WRITE), Type.F32, AXIS, ZERO),),
    ],
)
def test_loops_of_anything_else(body: tuple[Statement, ...]) -> None:
    assert not is_of_stores(loop(*body))


POSITION, FOUND = Value("k", Type.I64), Value("y", Type.F32)
PLACE = Let(POSITION, Apply("to_i64", (Load(READ, Type.I32, AXIS),), Type.I64))


def found(index: Expression) -> Let:
    return Let(FOUND, Load(READ, Type.F32, index))


@pytest.mark.parametrize("index", [POSITION, Index(3, ((AXIS, 5), (POSITION, 2)))])
def test_loops_that_load_by_loaded_indices(index: Expression) -> None:
    assert is_of_lookups(loop(PLACE, found(index), stored(FOUND)))
    within = Apply("minimum", (index, Index(9)), Type.I64)
    assert is_of_lookups(loop(PLACE, stored(Load(READ, Type.F32, within))))


def test_loops_that_load_at_computed_indices_only() -> None:
    assert not is_of_lookups(loop(PLACE, found(AXIS), stored(FOUND)))
    # The row of all of them.
    assert not is_of_lookups(loop(found(Index(0, ((AXIS, 1), (ITEM, 9)))), stored(FOUND)))
    assert not is_of_lookups(loop(PLACE, found(POSITION)))
