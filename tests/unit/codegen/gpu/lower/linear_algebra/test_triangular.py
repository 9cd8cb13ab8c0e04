"""Factors and systems for a GPU: the library's plans, the kernels around them, and results."""

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.libraries import by_numpy as libraries
from tests.cuda_twin.lowered import grids, lowered, through_host
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import built, interpreted
from xla_client import ops
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_server.codegen.gpu.plans.library_plans import CholeskyPlan, TriangularSolvePlan

TYPES = ("float32", "float64", "complex64", "complex128")


def numbers(dtype: str, *sizes: int) -> Any:
    drawn = np.random.default_rng(sizes[-1]).standard_normal((2, *sizes))
    parts = drawn[0] + 1j * drawn[1] if dtype.startswith("complex") else drawn[0]
    return parts.astype(dtype)


def positive(dtype: str, *sizes: int) -> Any:
    half = numbers(dtype, *sizes)
    square = half @ half.conj().swapaxes(-1, -2) + sizes[-1] * np.eye(sizes[-1])
    return square.astype(dtype)


def on_both(function: Any, *arguments: Any) -> tuple[list[Any], list[Any]]:
    module = built(function, arguments)
    return results_of(lowered(module), arguments), interpreted(module, arguments)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(5, 5), (1, 3, 3), (2, 2, 4, 4)])
def test_factors_are_those_of_the_interpreter(dtype: str, sizes: Sequence[int]) -> None:
    for lower in (True, False):
        a = positive(dtype, *sizes)
        assert_near(*on_both(lambda a, lower=lower: ops.cholesky(a, lower=lower), a))


@pytest.mark.parametrize("batch", [1, 4])
def test_what_has_no_factor_is_nan(batch: int) -> None:
    a = positive("float32", batch, 4, 4)
    a[0, 2, 2] = np.nan
    if batch > 1:
        a[2] *= -1
    (ours,), (expected,) = on_both(lambda a: ops.cholesky(a, lower=True), a)
    assert np.isnan(expected[0]).all()
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_a_pivot_that_is_nan_is_no_factor_for_a_library_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(plan: CholeskyPlan, matrices: int, status: int) -> None:
        ctypes.memset(status, 0, 4)

    monkeypatch.setattr(libraries, "_factor", silent)
    a = np.diag([1, 2, np.nan, 4]).astype(np.float32)
    code = lowered(built(lambda a: ops.cholesky(a, lower=True), [a]))
    (found,) = results_of(code, [a])
    assert np.isnan(found).all()


def solved(forms: tuple[bool, bool, bool, Transpose], a: Any, b: Any) -> Any:
    return ops.triangular_solve(a, b, *forms)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_solutions_are_those_of_the_interpreter(dtype: str, batch: Sequence[int]) -> None:
    a = numbers(dtype, *batch, 4, 4) / 4 + 2 * np.eye(4, dtype=dtype)
    for left, lower, unit in itertools.product((True, False), repeat=3):
        b = numbers(dtype, *batch, *((4, 3) if left else (3, 4)))
        for transpose in Transpose:
            forms = left, lower, unit, transpose
            solve = functools.partial(solved, forms)
            assert_near(*on_both(solve, a.astype(dtype), b))


def test_a_batch_has_its_addresses_from_a_kernel() -> None:
    a, b = numbers("float32", 3, 4, 4), numbers("float32", 3, 4, 2)
    one = lowered(built(lambda a, b: ops.triangular_solve(a, b), (a[:1], b[:1])))
    many = lowered(built(lambda a, b: ops.triangular_solve(a, b), (a, b)))
    assert (len(grids(one)), len(grids(many))) == (0, 1)
    (plan,) = plans(many)
    assert isinstance(plan, TriangularSolvePlan)
    assert plan.batch == 3


def test_operands_are_not_written_to() -> None:
    a, b = positive("float32", 4, 4), numbers("float32", 4, 2)

    def solved(a: Any, b: Any) -> Any:
        factor = ops.cholesky(a, lower=True)
        return ops.tuple(factor, a + a, ops.triangular_solve(factor, b), b + b)

    assert_near(*on_both(solved, a, b))


def test_arrays_without_elements_call_nothing() -> None:
    empty = np.zeros((0, 4, 4), np.float32)
    assert lowered(built(lambda a: ops.cholesky(a, lower=True), [empty])).thunks == []
    assert lowered(built(lambda a: ops.triangular_solve(a, a), [empty])).thunks == []


@pytest.mark.parametrize("name", ["cholesky", "triangular_solve"])
def test_what_the_library_does_not_have_goes_through_the_host(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plan in (CholeskyPlan, TriangularSolvePlan):
        monkeypatch.setattr(plan, "problem", "not today")
    function = {
        "cholesky": lambda a: ops.cholesky(a, lower=True),
        "triangular_solve": lambda a: ops.triangular_solve(a, a),
    }[name]
    code = lowered(built(function, [positive("float32", 4, 4)]))
    assert plans(code) == []
    assert through_host(code)
