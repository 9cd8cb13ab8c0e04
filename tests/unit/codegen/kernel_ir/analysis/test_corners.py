"""Accesses of first and last iterations, as far as they are known."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.kernel_ir.kernels import ITEM, READ, ROW, WRITE, ZERO, kernel_of, parallel
from xla_server.codegen.kernel_ir.analysis.corners import ElementAccess, accesses
from xla_server.codegen.kernel_ir.analysis.known_numbers import ByteAddress
from xla_server.codegen.kernel_ir.expressions import (
    START,
    STOP,
    Address,
    Apply,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Quotient,
    Region,
    Remainder,
    Usage,
    Value,
    integer_op,
    whole,
)
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Break,
    Call,
    Declare,
    For,
    If,
    Let,
    ParallelFor,
    Statement,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type

K, J, N = (Value(name, Type.I64) for name in "kjn")
SEEN = Load(READ, Type.I64, Index(0))
"""A number that depends on data."""
BLOCK_END = integer_op("minimum", K + 4, 10)
WEIGHED = Index(100, ((K, 10), (J, 1)))


def store(index: int | Expression, guard: Expression | None = None) -> Store:
    return Store(WRITE, Type.F32, whole(index), ZERO, guard)


def loop(axis: Value, low: int | Expression, high: int | Expression, *body: Statement) -> For:
    return For(axis, whole(low), whole(high), body, 1)


def compared(function: str, *operands: int | Expression) -> Apply:
    return Apply(function, tuple(map(whole, operands)), Type.B1)


UNKNOWN = compared("lt", SEEN, 3)


def stored(*statements: Statement) -> list[int]:
    """Return the numbers of the elements that statements store, in order."""
    found = accesses(kernel_of(*statements))
    return [each.address.byte // 4 for each in found if each.is_store]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([loop(K, 2, 9, store(K))], [2, 8]),
        ([loop(K, 4, 4, store(K))], []),
        ([For(K, Index(0), Index(10), (store(K),), 4, step=4)], [0, 8]),
        # Ragged blocks: the last one has fewer iterations.
        (
            [
                For(
                    K,
                    Index(0),
                    Index(10),
                    (loop(J, K, integer_op("minimum", K + 4, 10), store(J)),),
                    3,
                    4,
                )
            ],
            [0, 3, 8, 9],
        ),
        ([loop(K, 0, 2, loop(J, 0, 3, store(WEIGHED)))], [100, 102, 110, 112]),
        ([loop(K, 0, 8, Let(N, K * 3), store(N + 1))], [1, 22]),
        ([loop(K, 0, 8, store(Index(0, ((Quotient(K, 3), 4), (Remainder(K, 3), 1)))))], [0, 9]),
        ([store(integer_op("select", compared("eq", 1, 1), 5, 6))], [5]),
        ([store(Const(Type.I64, (7,)))], [7]),
        # An access that depends on data, or on a test, is not looked at.
        ([store(SEEN)], []),
        ([loop(K, 0, SEEN, store(K))], []),
        ([loop(K, 0, 9, If(UNKNOWN, (Break(),)), store(K))], []),
        ([While(UNKNOWN, (store(1),), 3)], []),
        ([If(UNKNOWN, (store(1),), (store(2),)), store(3)], [3]),
        ([Declare(Cell("c", Type.I64), Index(1)), store(Cell("c", Type.I64))], []),
        ([Call(Routine("f", (), (Type.I64,)), (), (N,)), store(N)], []),
        ([store(1, UNKNOWN)], []),
        # Tests of loop variables are known.
        ([loop(K, 0, 9, If(compared("lt", K, 4), (store(K),), (store(K + 100),)))], [0, 108]),
        ([loop(K, 0, 9, store(K, compared("gt", K, 4)))], [8]),
        ([loop(K, 0, 9, store(K, compared("bit_and", UNKNOWN, compared("gt", K, 9))))], []),
    ],
)
def test_first_and_last_iterations(statements: Sequence[Statement], expected: list[int]) -> None:
    assert stored(*statements) == expected


def test_the_first_two_items_and_the_last_one() -> None:
    parts = parallel(store(ITEM), items=9), ParallelFor(N, 8, (store(N),), first=9, step=3)
    found = [each for each in accesses(kernel_of(*parts)) if each.is_store]
    assert [each.item for each in found] == [0, 1, 8, 9, 12, 15]
    assert [each.address.byte for each in found] == [0, 4, 32, 36, 48, 60]


def test_a_range_is_all_items() -> None:
    walked = ParallelFor(None, 9, (loop(K, START, STOP, store(K)),), is_range=True)
    assert stored(walked) == [0, 8]


def test_regions_are_parts_of_their_memory() -> None:
    row = Let(N, Address(WRITE, K, 40))
    element = Region(N + 8, Usage.SCRATCH)
    kept = Region(Address(ROW, Index(1), 16), Usage.SCRATCH)
    body = row, Store(element, Type.F32, Index(2), ZERO), Store(kept, Type.F32, Index(1), ZERO)
    found = accesses(kernel_of(loop(K, 0, 3, *body)))
    addresses = [(each.address.memory, each.address.byte) for each in found]
    assert addresses == [(WRITE, 16), (ROW, 20), (WRITE, 96), (ROW, 20)]


def test_loads_are_found_with_their_types() -> None:
    found = accesses(kernel_of(Let(N, Load(READ, Type.I64, Index(3)))))
    assert found == [ElementAccess(ByteAddress(READ, 24), Type.I64, is_store=False, item=None)]


@pytest.mark.parametrize(
    ("address", "byte"),
    [
        (integer_op("add", 4, Address(WRITE)), 4),
        (Address(WRITE, Index(2), 8) - 4, 12),
        (integer_op("select", compared("eq", 1, 1), Address(WRITE), Address(ROW)), 0),
        (integer_op("sub", Address(WRITE), Address(READ)), None),
        (integer_op("sub", 4, Address(WRITE)), None),
        (integer_op("maximum", Address(WRITE), Address(WRITE)), None),
    ],
)
def test_addresses_are_computed_as_far_as_they_are_known(
    address: Expression, byte: int | None
) -> None:
    store = Store(Region(address, Usage.SCRATCH), Type.U8, Index(0), Const(Type.U8, (1,)))
    found = [each.address.byte for each in accesses(kernel_of(store))]
    assert found == ([] if byte is None else [byte])
