from pathlib import Path

import numpy as np
import pytest

from tests.elementwise_operations import OPERATIONS
from xla_contract.ops.definitions import DEFINITION
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE as RULES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise.elementwise_op import KernelForm
from xla_server.ops.elementwise.elementwise_table import (
    COMBINING,
    ELEMENTWISE,
    EXPENSIVE,
    ROUNDED_SUMS,
    ROWS,
    TRANSCENDENTAL,
)
from xla_server.ops.numerics.scalar_function import UFUNC

ROOT = Path(__file__).parents[4]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for package in ("host", "protos", "client", "server")
    for path in (ROOT / package).rglob("*.py")
}


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("ATANH", "trigonometric"),
        ("CBRT", "exponential"),
        ("COSH", "trigonometric"),
        ("ERF", "exponential"),
        ("LOG_PLUS_ONE", "exponential"),
        ("POPCNT", "bitwise"),
    ],
)
def test_an_operation_without_rules_of_its_own_is_named_in_its_rows_alone(
    name: str, family: str
) -> None:
    assert {path for path, text in SOURCES.items() if f"Opcode.{name}" in text} == {
        "protos/xla_contract/ops/elementwise/elementwise.py",
        f"server/xla_server/ops/elementwise/rows/{family}.py",
        "client/xla_client/ops/elementwise/elementwise.py",
    }


def test_every_operation_of_the_contract_has_a_row() -> None:
    assert set(ROWS) == set(RULES)
    assert set(OPERATIONS) == {*UNARY, *BINARY}
    assert set(ROWS) < ELEMENTWISE < set(DEFINITION)


def test_a_formula_has_a_bound_on_its_error() -> None:
    functions = {opcode for opcode, row in ROWS.items() if row.form is KernelForm.FUNCTION}
    bounded = {opcode for opcode, row in ROWS.items() if row.ulps is not None}
    assert functions - bounded == {Opcode.COMPLEX, Opcode.IMAG, Opcode.REAL}
    assert not bounded - functions


def test_a_power_takes_as_long_as_several_functions() -> None:
    assert ROWS[Opcode.POWER].cost >= 2 * (ROWS[Opcode.EXPONENTIAL].cost + ROWS[Opcode.LOG].cost)


def test_the_sets_of_costs_derive_from_the_rows() -> None:
    assert TRANSCENDENTAL < EXPENSIVE
    assert {Opcode.DIVIDE, Opcode.REMAINDER} <= EXPENSIVE - TRANSCENDENTAL
    assert {Opcode.SQRT, Opcode.RSQRT, Opcode.TANH} < TRANSCENDENTAL
    assert set(ROWS) > EXPENSIVE


def test_a_neutral_operand_leaves_the_other_one() -> None:
    numbers = np.array([-np.inf, -1.5, -0.0, 0.0, 3e38, np.inf], np.float32)
    neutral = {o: np.float32(row.neutral) for o, row in ROWS.items() if row.neutral is not None}
    for opcode, beside in neutral.items():
        function = ROWS[opcode].function_of(ElementType.F32)
        orders = (
            [(numbers, beside), (beside, numbers)] if opcode in COMBINING else [(numbers, beside)]
        )
        for operands in orders:
            with np.errstate(invalid="ignore"):
                found = function(*operands)
            assert found.tobytes() == numbers.tobytes(), opcode
    assert neutral.keys() - COMBINING == {Opcode.DIVIDE, Opcode.POWER, Opcode.SUBTRACT}


def test_operations_that_combine_in_any_order_are_numpy_s_reductions() -> None:
    assert {opcode: ROWS[opcode].function for opcode in COMBINING} == UFUNC
    assert {Opcode.ADD, Opcode.MULTIPLY} == ROUNDED_SUMS
    assert {Opcode.MAXIMUM, Opcode.MINIMUM} < COMBINING - ROUNDED_SUMS
