"""Simplified kernels: statements that do nothing are dropped."""

import random

import numpy as np
import pytest

from tests.example_platform.walker import run
from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    WRITE,
    kernel_of,
    parallel,
    sums_of_rows,
)
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Const,
    Index,
    Load,
    Value,
    condition,
    integer_op,
)
from xla_server.codegen.kernel_ir.simplifier import simplify
from xla_server.codegen.kernel_ir.statements import Break, For, If, Let, Statement, Store, While
from xla_server.codegen.kernel_ir.types import Type

TRUE, FALSE = Const(Type.B1, (1,)), Const(Type.B1, (0,))
TEST = Apply("lt", (ITEM, Index(2)), Type.B1)
AXIS, OTHER = Value("i", Type.I64), Value("j", Type.I64)
STORED = Store(WRITE, Type.I64, ITEM, ITEM)
AGAIN = Store(WRITE, Type.I64, ITEM, Index(7))


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        ((Let(AXIS, Load(READ, Type.I64, ITEM)), STORED), (STORED,)),
        ((Let(AXIS, ITEM), Let(OTHER, AXIS), STORED), (STORED,)),
        ((If(TRUE, (STORED,), (AGAIN,)),), (STORED,)),
        ((If(FALSE, (STORED, AGAIN), (AGAIN,)),), (AGAIN,)),
        ((If(TEST, (Let(AXIS, ITEM),)), STORED), (STORED,)),
        ((While(FALSE, (Break(),), 1), STORED), (STORED,)),
        ((For(AXIS, Index(3), Index(3), (STORED,), 0), AGAIN), (AGAIN,)),
        ((For(AXIS, Index(0), ITEM, (Let(OTHER, AXIS),), 3), AGAIN), (AGAIN,)),
        (
            (For(AXIS, Index(0), ITEM, (Let(OTHER, AXIS), STORED), 3),),
            (For(AXIS, Index(0), ITEM, (STORED,), 3),),
        ),
    ],
)
def test_statements_that_do_nothing_are_left_out(
    statements: tuple[Statement, ...], left: tuple[Statement, ...]
) -> None:
    found = simplify(kernel_of(parallel(*statements)))
    assert found == kernel_of(parallel(*left))
    assert simplify(found) is found


@pytest.mark.parametrize(
    "statement",
    [
        If(TEST, (STORED,)),
        If(TEST, (), (STORED,)),
        For(AXIS, Index(0), Index(1), (STORED,), 1),
        While(TRUE, (Break(),), 1),
        While(TEST, (), 1),
    ],
)
def test_statements_that_do_something_are_left(statement: Statement) -> None:
    kernel = kernel_of(parallel(statement))
    assert simplify(kernel) is kernel


def test_a_value_is_left_that_is_used_further_inside() -> None:
    store = Store(WRITE, Type.I64, ITEM, AXIS)
    kernel = kernel_of(parallel(Let(AXIS, ITEM), If(TEST, (store,))))
    assert simplify(kernel) is kernel
    assert simplify(sums := sums_of_rows()) is sums


def _random_statements(choose: random.Random, values: list[Value], depth: int) -> list[Statement]:
    """Return statements that bind values, store, branch and loop."""
    found: list[Statement] = []
    for _ in range(choose.randint(0, 4)):
        kind = choose.choice(["let", "let", "store", "if", "for"] if depth else ["let", "store"])
        inside = lambda: tuple(_random_statements(choose, [*values], depth - 1))  # noqa: E731
        operand = choose.choice(values)
        match kind:
            case "let":
                value = Value(f"v{choose.random()}", Type.I64)
                function, number = choose.choice(["add", "mul", "maximum"]), choose.randint(0, 2)
                found.append(Let(value, integer_op(function, operand, number)))
                values.append(value)
            case "store":
                found.append(Store(WRITE, Type.I64, ITEM, operand))
            case "if":
                test = choose.choice([TRUE, FALSE, condition("lt", operand, 3)])
                found.append(If(test, inside(), inside()))
            case "for":
                axis = Value(f"i{choose.random()}", Type.I64)
                high = Index(choose.randint(0, 2))
                found.append(For(axis, Index(0), high, inside(), 1))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_simplified_kernels_give_the_same_bits(seed: int) -> None:
    choose = random.Random(seed)
    kernel = kernel_of(parallel(*_random_statements(choose, [ITEM], 3)), stack=())
    found = simplify(kernel)
    assert simplify(found) is found
    results = []
    for each in (kernel, found):
        written = np.full(32, 9, np.uint8)
        run(each, [np.zeros(32, np.uint8), written, np.zeros(8, np.uint8)], 0, 4)
        results.append(written.tobytes())
    assert results[0] == results[1]
