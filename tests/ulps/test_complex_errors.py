"""Every function of complex numbers is within the documented bound, on both platforms."""

import re
from typing import Any

import numpy as np
import pytest

from tests.ulps.complex_errors import BOUND, OPCODES, REFERENCE, WIDE, errors, samples
from tests.ulps.page import PATH
from tests.unit.codegen.compiled import built as stated
from tests.unit.codegen.compiled import interpreted, on_cpu
from xla_client import ops
from xla_client.builder import Op
from xla_contract.ops.elementwise import BINARY

NAMES = {
    "cosine": "cos",
    "divide": "div",
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log-plus-one": "log1p",
    "multiply": "mul",
    "power": "pow",
    "sine": "sin",
    "subtract": "sub",
}
COUNT = 8_000


def results(opcode: str, operands: list[Any]) -> tuple[Any, Any]:
    function = getattr(ops, NAMES.get(opcode, opcode))

    def program(*parameters: Op) -> Op:
        return function(*parameters)  # type: ignore[no-any-return]

    module = stated(program, operands)
    (compiled,), (expected,) = on_cpu(module, operands), interpreted(module, operands)
    return compiled, expected


def assert_near(opcode: str, kind: str, operands: list[Any]) -> None:
    with np.errstate(all="ignore"):
        exact = REFERENCE[opcode](*(operand.astype(WIDE) for operand in operands))
        for result in results(opcode, operands):
            found = errors(result, exact, kind)
            assert float(np.max(np.where(np.isnan(found), np.inf, found))) <= BOUND


@pytest.mark.parametrize("kind", ["c64", "c128"])
@pytest.mark.parametrize("opcode", OPCODES)
def test_functions_are_within_the_bound(opcode: str, kind: str) -> None:
    operands = [samples(COUNT, kind, 1)]
    if opcode in BINARY:
        operands.append(np.random.default_rng(2).permutation(samples(COUNT, kind, 3)))
    if opcode == "power":
        random = np.random.default_rng(4)
        parts = random.standard_normal((2, operands[0].size)) * [[30], [8]]
        operands[1] = (parts[0] + 1j * parts[1]).astype(operands[0].dtype)
    assert_near(opcode, kind, operands)


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_logarithms_near_one(kind: str) -> None:
    turns = np.linspace(-np.pi, np.pi, 4001)
    for distance in (0, 1e-15, 1e-10, 1e-6, 1e-3, 0.1, 0.29):
        on_circle = np.exp(1j * turns) * (1 + distance)
        around = 1 + distance * np.exp(1j * turns)
        for z in (on_circle, around):
            assert_near("log", kind, [z.astype(np.complex64 if kind == "c64" else np.complex128)])


def test_logistic_near_its_poles() -> None:
    turns = np.exp(1j * np.linspace(-np.pi, np.pi, 2001))
    for distance in (1e-9, 1e-5, 1e-2):
        for pole in (np.pi, -np.pi, 3 * np.pi):
            operand = distance * turns + 1j * pole
            result = results("logistic", [operand])
            z = operand.astype(WIDE)
            a, b = -z.real, -z.imag
            below = np.empty(z.shape, WIDE)
            below.real = 2 * np.cos(b / 2) ** 2 + np.cos(b) * np.expm1(a)
            below.imag = np.exp(a) * np.sin(b)
            exact = 1 / below
            for each in result:
                assert float(np.max(errors(each, exact, "c128"))) <= BOUND


def test_the_page_states_the_bound() -> None:
    found = re.search(
        r"complex numbers are within (\d+) ULP normwise", PATH.read_text(encoding="utf-8")
    )
    assert found
    assert float(found[1]) == BOUND
