"""Rules by which instructions on integers are simplified."""

import pytest

from tests.unit.codegen.kernel_ir.kernels import ITEM
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Const,
    Expression,
    Index,
    Value,
    condition,
    integer_op,
    opaque,
)
from xla_server.codegen.kernel_ir.integer_rules import ABSORBED, FUNCTIONS, KEPT, folded
from xla_server.codegen.kernel_ir.types import Type

TRUE, FALSE = Const(Type.B1, (1,)), Const(Type.B1, (0,))
TEST = Apply("lt", (ITEM, Index(2)), Type.B1)
AXIS, OTHER = Value("i", Type.I64), Value("j", Type.I64)

RESULTS = {
    "add": 9,
    "sub": 5,
    "mul": 14,
    "minimum": 2,
    "maximum": 7,
    "whole_div": 3,
    "whole_mod": 1,
    "narrow_div": 3,
    "narrow_mod": 1,
    "bit_and": 2,
    "bit_or": 7,
    "eq": 0,
    "ne": 1,
    "lt": 0,
    "le": 0,
    "gt": 1,
    "ge": 1,
    "select": 2,
}
"""Results of the functions of 7 and 2; a choice is of 2 and 7."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_known_operands_are_computed(function: str) -> None:
    operands = (1, 2, 7) if function == "select" else (7, 2)
    assert folded(function, operands) == RESULTS[function]
    assert folded(function, (*operands[:-1], None)) is None


@pytest.mark.parametrize(
    ("function", "operands"),
    [("whole_div", (7, 0)), ("narrow_mod", (-1, 3)), ("mul", (1 << 62, 2)), ("alloca_i32", (1,))],
)
def test_what_has_no_result_is_left(function: str, operands: tuple[int, ...]) -> None:
    assert folded(function, operands) is None


@pytest.mark.parametrize(("function", "position", "number"), [*KEPT, *ABSORBED])
def test_one_known_operand_decides(function: str, position: int, number: int) -> None:
    def of(known: Expression) -> Expression:
        operands: list[Expression] = [AXIS, OTHER]
        if function == "select":
            operands = [TEST, AXIS, OTHER]
            known = Const(Type.B1, (number,)) if known == Index(number) else TEST
        operands[position] = known
        return integer_op(function, *operands)

    case = function, position, number
    kept = dict(enumerate([AXIS, OTHER]))
    if function == "select":
        kept = {1: AXIS, 2: OTHER}
    assert of(Index(number)) == (kept[KEPT[case]] if case in KEPT else Index(ABSORBED[case]))
    assert isinstance(of(Index(number + 3)), Apply)
    assert isinstance(of(opaque(number)), Apply)


def test_conditions_of_known_numbers_are_truth_values() -> None:
    assert condition("lt", 2, 3) == TRUE
    assert condition("lt", 3, 2) == FALSE
    assert isinstance(condition("lt", ITEM, 2), Apply)
