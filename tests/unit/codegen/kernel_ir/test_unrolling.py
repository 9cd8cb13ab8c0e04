"""The choice of loops that become copies of their bodies."""

import dataclasses

import pytest

from tests.unit.codegen.kernel_ir.kernels import ITEM, READ, ROW, WRITE, ZERO, pools, sums
from xla_server.codegen.kernel_ir.expressions import (
    STOP,
    Apply,
    Expression,
    Index,
    Load,
    Quotient,
    Value,
    whole,
)
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Call,
    For,
    If,
    Let,
    Statement,
    Store,
    While,
    blocks_of,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import constant_iterations, is_unrolled

AXIS = Value("i", Type.I64)
STORE = Store(ROW, Type.I64, Index(0), ITEM)
TEST = Apply("lt", (ITEM, STOP), Type.B1)


def loop(high: int | Expression, *body: Statement, low: int | Expression = 0, step: int = 1) -> For:
    return For(AXIS, whole(low), whole(high), body or (STORE,), 1, step)


def unrolled(statement: Statement) -> int:
    """Return the number of loops that are unrolled, whatever is around them."""
    own = isinstance(statement, For) and is_unrolled(statement)
    return own + sum(map(unrolled, blocks_of(statement)))


ELEMENT = Load(READ, Type.F32, AXIS)


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (ELEMENT, [1, 1, 1, 1]),
        (Load(READ, Type.F32, Load(READ, Type.I64, AXIS)), [1, 1, 0, 0]),
        (Apply("exp_f32", (ELEMENT,), Type.F32), [1, 1, 0, 0]),
        (Apply("exp_f32", (Load(READ, Type.F32, ITEM),), Type.F32), [1, 1, 0, 0]),
        # Not what is apart: LLVM makes vectors across the loop around these.
        (Apply("exp_f32", (Load(READ, Type.F32, AXIS * 7 + ITEM),), Type.F32), [1, 1, 1, 1]),
        (Apply("exp_f32", (Load(READ, Type.F32, AXIS // 2),), Type.F32), [1, 1, 1, 1]),
        # Not what has just been stored one by one.
        (Apply("exp_f32", (Load(ROW, Type.F32, AXIS),), Type.F32), [1, 1, 1, 1]),
    ],
)
def test_lookups_and_costly_functions_stay_a_loop(element: Expression, expected: list[int]) -> None:
    store = Store(WRITE, Type.F32, AXIS, element)
    assert [unrolled(loop(count, store)) for count in (1, 2, 3, 8)] == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (sums(3), True),
        (sums(4), False),
        (sums(8), False),
        # No vectors of neighbours, and a function as long for four as for sixteen.
        (sums(8, stride=2), True),
        (sums(8, function="pow_f32"), True),
    ],
)
def test_neighbouring_sums_of_products_stay_a_loop(statement: For, expected: bool) -> None:
    assert statement.unrolled is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (pools(3), True),
        (pools(4), False),
        (pools(8), False),
        # No vectors of neighbours, or none that is known, and a function as long for all features.
        (pools(4, stride=2), True),
        (pools(4, is_tested=True), True),
        (pools(4, function="pow_f32"), True),
    ],
)
def test_neighbouring_windows_stay_a_loop(statement: For, expected: bool) -> None:
    assert statement.unrolled is expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (loop(8), 1),
        (loop(9), 0),
        (loop(64, step=8), 1),
        (loop(12, low=8), 1),
        (loop(STOP), 0),
        (loop(8, low=ITEM), 0),
        # A window, alone or around a loop of its own for each element.
        (loop(3, loop(3)), 2),
        (loop(3, loop(3, loop(STOP))), 2),
        # Copies of the innermost statement: 64, 128 of which the outer loop makes none, 4 * 4 * 6.
        (loop(8, loop(8)), 2),
        (loop(8, loop(8, loop(2))), 2),
        (loop(4, loop(4, loop(STOP))), 1),
        # A short loop around a long one of few statements, and of many.
        (loop(3, loop(1000)), 1),
        (loop(3, loop(STOP, *[STORE] * 8)), 1),
        (loop(3, loop(STOP, *[STORE] * 9)), 0),
        # Loops around long loops remain.
        (loop(512, loop(STOP, loop(1000), low=AXIS), loop(1000), step=64), 0),
        (loop(2, While(TEST, (loop(3, loop(1000)),), 1)), 1),
        # Branches count as what is in them.
        (loop(4, If(TEST, (While(TEST, (STORE,), 1),))), 1),
        (loop(8, If(TEST, (STORE,), (loop(8, loop(2)),))), 2),
    ],
)
def test_short_loops_are_unrolled(statement: For, expected: int) -> None:
    assert unrolled(statement) == expected


@pytest.mark.parametrize(
    ("iterations", "statements", "stride", "expected"),
    [(8, 8, 400, 1), (8, 9, 400, 0), (8, 9, 16, 0), (8, 9, 15, 1), (2, 40, 400, 0)],
)
def test_long_columns_stay_a_loop(
    iterations: int, statements: int, stride: int, expected: int
) -> None:
    store = Store(WRITE, Type.F32, Index(0, ((AXIS, stride),)), ELEMENT)
    assert unrolled(loop(iterations, *[store] * statements)) == expected


INNER = Value("j", Type.I64)
PLACE = Index(0, ((AXIS, 40), (INNER, 1)))
BESIDE = Load(READ, Type.F32, PLACE)


def chosen(position: Expression) -> Expression:
    """Return the element, or zero where a position is far."""
    return Apply("select", (Apply("lt", (position, whole(3)), Type.B1), BESIDE, ZERO), Type.F32)


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (BESIDE, False),
        (Apply("mul", (BESIDE, Load(READ, Type.F32, AXIS)), Type.F32), False),
        (chosen(INNER), False),
        # Copies know what is tested or divided.
        (chosen(AXIS), True),
        (chosen(Index(1, ((AXIS, 2),))), True),
        (Load(READ, Type.F32, Quotient(Index(0, ((AXIS, 1),)), 2)), True),
    ],
)
def test_rows_that_stay_loops_are_written_once(element: Expression, expected: bool) -> None:
    row = For(INNER, whole(0), whole(40), (Store(WRITE, Type.F32, PLACE, element),), 40)
    assert is_unrolled(loop(8, row)) is expected
    # Short rows are copied, and what is not stored in a buffer may stay in registers.
    assert is_unrolled(loop(8, dataclasses.replace(row, unrolled=True)))
    assert is_unrolled(loop(8, dataclasses.replace(row, body=(STORE,))))


def test_rows_at_a_bound_number_are_copied() -> None:
    number, value = Value("n", Type.I64), Value("v", Type.F32)
    store = Store(WRITE, Type.F32, PLACE, value)
    for bound, expression, expected in (
        (value, BESIDE, False),
        (number, Index(1, ((AXIS, 2),)), True),
    ):
        row = For(INNER, whole(0), whole(40), (Let(bound, expression), store), 40)
        assert is_unrolled(loop(8, row)) is expected


@pytest.mark.parametrize(("statements", "expected"), [(32, True), (33, False)])
def test_long_bodies_stay_a_loop(statements: int, expected: bool) -> None:
    assert is_unrolled(loop(8, *[STORE] * statements)) is expected
    assert is_unrolled(loop(8, If(TEST, (STORE,) * (statements - 1), ()))) is expected


@pytest.mark.parametrize(("statements", "expected"), [(11, True), (12, False)])
def test_copies_inside_count_for_long_bodies(statements: int, expected: bool) -> None:
    inside = loop(4, *[STORE] * statements)
    copied = dataclasses.replace(inside, iterations=4, unrolled=True)
    assert is_unrolled(loop(8, copied)) is expected
    assert is_unrolled(loop(8, inside))


@pytest.mark.parametrize(("is_inlined", "expected"), [(False, False), (True, True)])
def test_loops_that_call_routines_stay(is_inlined: bool, expected: bool) -> None:
    call = Call(Routine("f", (), is_inlined=is_inlined), ())
    assert is_unrolled(loop(3, call)) is expected
    assert is_unrolled(loop(3, If(TEST, (), (call,)))) is expected


def test_iterations_are_known_of_constant_bounds() -> None:
    assert constant_iterations(loop(10, low=1, step=4)) == 3
    assert constant_iterations(loop(STOP)) is None
    assert constant_iterations(While(TEST, (), 5)) is None
