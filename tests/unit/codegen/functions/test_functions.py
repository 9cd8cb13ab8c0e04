"""Elementary functions of kernels: their errors, their special cases, their machine code.

`make ulps` measures the errors of more operands than there is time for here.
"""

import re
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from tests.conformance.sweep.draws.depth import FULL
from tests.processors import HOST, MACHINES
from tests.ulps.errors import worst
from tests.ulps.functions import BINARY, OPERATIONS, REFERENCE, computed, exact, loop
from tests.ulps.measuring import ULP_BOUND, WHOLE, bound_of, measured
from tests.ulps.samples import operands_of, special_values
from tests.unit.codegen.assembled import assembly_of
from xla_contract.types.element_type import ElementType
from xla_server.codegen.functions.called_functions import WITH_BRANCHES
from xla_server.codegen.functions.real.irrational import two_over_pi
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.functions.values import ElementaryFunction
from xla_server.codegen.kernel import module_of
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.ops.numerics.subnormals import subnormals_as_zeros

DTYPE: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
SAMPLE = 100_000
OWN = [function for function in REFERENCE if function not in OPERATIONS]
EVERY = [(function, name) for function in OWN for name in DTYPE]
VECTORS = MACHINES["avx2"] if HOST.is_x86 else HOST
"""A processor with instructions for x * y + z: where there is none the C library computes it."""


def check(function: str, name: str, *operands: Any) -> None:
    """The errors are within the bound, and zeros have the right sign."""
    result, right = computed(function, *operands), exact(function, name, *operands)
    error, place = worst(name, result, right)
    at = [operand[place] for operand in operands]
    bound = bound_of(function, name)
    assert error <= bound, f"{function}{at} = {result[place]}, exactly {right[place]}"


def test_every_function_has_a_kernel_function_a_bound_and_a_reference() -> None:
    named = {row.kernel_function(ElementType.F32, "f32") for row in ROWS.values()}
    own = {name for name in named if name.endswith("_f32")} - {
        "real_f32",
        "imag_f32",
        "complex_f32",
    }
    assert own == {f"{function}_f32" for function in OWN}
    assert set(ULP_BOUND) == set(EVERY)
    assert {f"{function}_{name}" for function, name in EVERY} <= set(FUNCTIONS)


@pytest.mark.parametrize(("function", "name"), EVERY)
def test_the_error_is_within_the_bound(function: str, name: str) -> None:
    check(function, name, *operands_of(function, name, SAMPLE, seed=7))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("function", [function for function in OWN if function not in BINARY])
def test_every_exponent_of_f32(function: str) -> None:
    """A slice of each of the 512 exponents; with CONFORMANCE=full every f32 there is."""
    for error in measured(function, "f32", WHOLE if FULL else WHOLE >> 15):
        assert error.ulps <= bound_of(function, "f32"), f"{function}{error.at}"


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("function", ["exp", "pow", "rem", "tanh"])
def test_every_narrow_float(function: str, name: str) -> None:
    (error,) = measured(function, name, 1 << 16)
    assert error.ulps <= bound_of(function, name), f"{function}{error.at}"


@pytest.mark.parametrize(("function", "name"), EVERY)
def test_special_values_are_those_of_the_definition(function: str, name: str) -> None:
    values = special_values(name)
    operands = [values]
    if function in BINARY:
        operands = [part.reshape(-1) for part in np.meshgrid(values, values)]
    result = computed(function, *operands)
    right = exact(function, name, *operands)
    with np.errstate(all="ignore"):
        expected = right.astype(DTYPE[name])
    plain = np.isin(expected, [0, 1, -1, np.inf, -np.inf]) & (expected == right)
    np.testing.assert_array_equal(result[plain], expected[plain])
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    zero = plain & (expected == 0)
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("function", ["erf", "tanh"])
def test_results_of_f32_are_odd_and_at_most_one(function: str) -> None:
    first, last = np.array([0.05, 10], np.float32).view(np.int32)
    x = np.arange(first, last, 97, np.int32).view(np.float32)
    result = computed(function, x)
    assert result.max() == result[-1] == 1
    np.testing.assert_array_equal(computed(function, -x), -result)


def test_erf_of_the_smallest_normal_numbers_is_right_where_subnormal_ones_are_zeros() -> None:
    x = np.float32(2.0**-126) * np.arange(1, 9, dtype=np.float32)
    with subnormals_as_zeros():
        result = computed("erf", x)
    np.testing.assert_allclose(result / x, 2 / np.sqrt(np.pi), rtol=1e-6)


@pytest.mark.parametrize("name", DTYPE)
def test_denormal_numbers_are_not_flushed(name: str) -> None:
    denormal = np.arange(-40, 40).astype(DTYPE[name]) * np.finfo(DTYPE[name]).smallest_subnormal
    for function in ("asin", "asinh", "atan", "atanh", "expm1", "log1p", "sin", "sinh", "tan"):
        np.testing.assert_array_equal(computed(function, denormal), denormal)
    np.testing.assert_array_equal(computed("tanh", denormal), denormal)
    check("log", name, denormal)
    check("cbrt", name, denormal)
    check("rsqrt", name, denormal)


def test_the_closest_f64_to_a_multiple_of_half_pi() -> None:
    """6381956970095103 * 2^797, 2^-61 off: what the reduction is made for."""
    closest = np.array([np.ldexp(6381956970095103.0, 797), -np.ldexp(6381956970095103.0, 797)])
    for function in ("sin", "cos", "tan"):
        check(function, "f64", closest)
    assert abs(computed("cos", closest)[0]) == pytest.approx(4.687165924254624e-19, rel=1e-15)


def test_functions_with_branches_are_those_that_loops_call() -> None:
    found = set()
    for name, function in FUNCTIONS.items():
        if isinstance(function, ElementaryFunction):
            written = ir.Function(ir.Module(), function.form(), name)
            function.write(written)
            found |= {name} if len(written.blocks) > 1 else set()
    assert found == WITH_BRANCHES


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_the_closest_f32_to_multiples_of_half_pi(function: str) -> None:
    """One for each fourth exponent, on both sides of the one where the reduction changes."""
    bits, mantissas = 400, np.arange(1 << 23, 1 << 24, dtype=np.uint64)
    closest = []
    for exponent in range(1, 128, 4):
        quarters = two_over_pi(bits) >> (bits - 64 - (exponent - 23)) & (2**64 - 1)
        distances = np.abs((mantissas * np.uint64(quarters)).view(np.int64))
        closest.append(np.ldexp(np.float32(mantissas[distances.argmin()]), exponent - 23))
    check(function, "f32", np.array(closest, np.float32))


@pytest.mark.parametrize(("function", "name"), EVERY)
def test_loops_are_vectorised_and_call_what_has_branches_alone(function: str, name: str) -> None:
    text = str(module_of(loop(function, name), "kernel", VECTORS))
    assembly = assembly_of(text, VECTORS)
    instructions = [line.strip() for line in assembly.splitlines() if line.startswith("\t")]
    calls = [line for line in instructions if re.match(r"(call|bl|b?jmp\s+[a-z_])", line)]
    calls = [line for line in calls if not re.match(r"bl[a-z]", line)]
    assert bool(calls) == (f"{function}_{name}" in WITH_BRANCHES), calls
    # Wide registers, or instructions on several numbers: x86's AVX and SSE, then ARM.
    packed = r"v.*[yz]mm|v?(add|sub|mul|div|sqrt|movu)p[sd]\s|f?(add|mul|mla|and)\s+v\d"
    assert [line for line in instructions if re.match(packed, line)]
