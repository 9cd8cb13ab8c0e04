"""Compiled factorisations and triangular solutions beside the interpreter, and beside jaxlib."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.processors import TARGET
from tests.unit.codegen.compiled import both, imported, on_cpu
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.types.element_type import ElementType as E
from xla_server.buffers.code import HostThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloModule
from xla_server.passes.framework.fixpoint import run_once
from xla_server.passes.pipeline import pipeline

FLOATS = [E.F32, E.F64, E.C64, E.C128, E.BF16, E.F16]
SIZES = [(1, 1), (5, 5), (2, 3, 4, 4), (40, 40), (3, 0, 0), (0, 3, 3)]

every_float = pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.text)


def matrices(kind: E, sizes: tuple[int, ...], seed: int = 0) -> Any:
    """Normal numbers, complex ones where the type is."""
    generator = np.random.default_rng(seed)
    array = generator.standard_normal(sizes)
    if kind.is_complex:
        return (array + 1j * generator.standard_normal(sizes)).astype(kind.dtype)
    return array.astype(kind.dtype)


def positive(kind: E, sizes: tuple[int, ...]) -> Any:
    """Positive definite matrices, with other numbers than theirs where one is not to look."""
    wide = matrices(E.C128 if kind.is_complex else E.F64, sizes)
    return wide @ np.conj(np.swapaxes(wide, -1, -2)) + sizes[-1] * np.eye(sizes[-1])


def tolerance(kind: E) -> float:
    narrow = {E.BF16: 0.05, E.F16: 0.01, E.F32: 2e-4, E.C64: 2e-4}
    return narrow.get(kind, 1e-11)


def assert_close(kind: E, pairs: Any) -> None:
    for ours, expected in pairs:
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        wide = np.complex128 if kind.is_complex else np.float64
        bound = tolerance(kind)
        np.testing.assert_allclose(
            ours.astype(wide), expected.astype(wide), rtol=bound, atol=bound, equal_nan=True
        )


@pytest.mark.parametrize(
    ("kind", "lower"),
    paired(FLOATS, [False, True]),
    ids=lambda each: each.text if isinstance(each, E) else None,
)
def test_cholesky(kind: E, lower: bool) -> None:
    arrays = []
    for sizes in SIZES:
        array = positive(kind, sizes)
        outside = np.triu(array, 1) if lower else np.tril(array, -1)
        arrays.append((array + 3 * outside).astype(kind.dtype))

    def function(*parameters: Op) -> Op:
        factors = [ops.cholesky(parameter, lower) for parameter in parameters]
        return ops.tuple(factors, parameters[0].builder)

    pairs = both(function, *arrays)
    assert_close(kind, pairs)
    for ours, _ in pairs:
        other = np.triu(ours.astype(np.complex128), 1) if lower else np.tril(ours, -1)
        assert not np.any(other)


@pytest.mark.parametrize("kind", [E.F32, E.C128], ids=lambda kind: kind.text)
@pytest.mark.parametrize("lower", [False, True])
def test_a_matrix_without_factor_becomes_nan_alone(kind: E, lower: bool) -> None:
    array = positive(kind, (4, 3, 3)).astype(kind.dtype)
    array[1] = -array[1]
    array[2, 0, 0] = 0
    # OpenBLAS takes it for a pivot.
    array[3, 1, 1] = np.nan
    pairs = both(lambda a: ops.cholesky(a, lower), array)
    assert_close(kind, pairs)
    ((ours, _),) = pairs
    assert np.isnan(ours[1:]).all()
    assert not np.isnan(ours[0]).any()


def test_the_matrices_stay_as_they_were() -> None:
    array = positive(E.F32, (3, 3)).astype(np.float32)

    def function(a: Op) -> Op:
        return ops.tuple([ops.cholesky(a), ops.triangular_solve(a, a), a + a], a.builder)

    _, _, (ours, expected) = both(function, array)
    assert_equal_bits(ours, expected)


FLAGS = list(itertools.product([False, True], [False, True], [False, True], list(Transpose)))
SYSTEMS = [((5, 5), 3), ((2, 3, 4, 4), 1), ((1, 1), 6), ((33, 33), 35), ((0, 3, 3), 2)]


def system(kind: E, sizes: tuple[int, ...], others: int) -> list[Any]:
    """Matrices with well-conditioned triangles, and right-hand sides for either side."""
    a = matrices(kind, sizes) / (2 * sizes[-1]) + np.eye(sizes[-1])
    b = matrices(kind, (*sizes[:-1], others), 1)
    return [a.astype(kind.dtype), b, np.ascontiguousarray(np.swapaxes(b, -1, -2))]


def solutions(parameters: Any, flags: Any) -> list[Op]:
    a, b, c = parameters
    return [
        ops.triangular_solve(a, b if left else c, left, lower, ones, transpose)
        for left, lower, ones, transpose in flags
    ]


@pytest.mark.parametrize("kind", [E.F32, E.C128], ids=lambda kind: kind.text)
def test_every_triangular_solve(kind: E) -> None:
    def function(*parameters: Op) -> Op:
        return ops.tuple(solutions(parameters, FLAGS), parameters[0].builder)

    assert_close(kind, both(function, *system(kind, (2, 3, 4, 4), 5)))


@every_float
def test_triangular_solve_of_every_size(kind: E) -> None:
    def function(*parameters: Op) -> Op:
        rows = [
            solution
            for first in range(0, len(parameters), 3)
            for solution in solutions(parameters[first : first + 3], FLAGS[::11])
        ]
        return ops.tuple(rows, parameters[0].builder)

    arrays = [array for sizes, others in SYSTEMS for array in system(kind, sizes, others)]
    assert_close(kind, both(function, *arrays))


def test_a_zero_on_the_diagonal_gives_infinities() -> None:
    a = np.array([[0, 0], [1, 2]], np.float32)
    assert_close(E.F32, both(ops.triangular_solve, a, np.ones((2, 2), np.float32)))


def test_solutions_of_jax() -> None:
    a = positive(E.F32, (4, 6, 6)).astype(np.float32)
    b = matrices(E.F32, (4, 6, 2))

    def program(a: Any, b: Any) -> Any:
        factor = jnp.linalg.cholesky(a)
        solution = jax.vmap(lambda a, b: jax.scipy.linalg.cho_solve((a, True), b))(factor, b)
        upper = jax.scipy.linalg.cholesky(a[0])
        return factor, solution, upper, jax.scipy.linalg.solve_triangular(upper, b[0], trans=1)

    assert_like_jax(program, a, b)
    assert_natively(program, a, b)


def assert_like_jax(program: Any, *arguments: Any, kind: E = E.F32) -> None:
    """The values that jaxlib gives, nearly."""
    results = on_cpu(module_of(program, *arguments), arguments)
    expected = jax.tree.leaves(jax.jit(program)(*arguments))
    assert_close(kind, zip(results, map(np.asarray, expected), strict=True))


def module_of(program: Any, *arguments: Any) -> HloModule:
    lowered = jax.jit(program).lower(*arguments)
    return imported(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def assert_natively(program: Any, *arguments: Any) -> None:
    """No row needs the interpreter."""
    module = module_of(program, *arguments)
    run_once(pipeline(TARGET), module)
    assert not [
        thunk for thunk in lower(module, LOWERINGS, TARGET).thunks if isinstance(thunk, HostThunk)
    ]


@pytest.mark.parametrize("kind", [E.F32, E.C64], ids=lambda kind: kind.text)
def test_factors_of_jax(kind: E) -> None:
    tall, wide = matrices(kind, (3, 40, 7)), matrices(kind, (2, 5, 9), 1)

    def program(tall: Any, wide: Any) -> Any:
        return (
            *jax.lax.linalg.lu(tall),
            *jax.lax.linalg.lu(wide),
            *jnp.linalg.qr(tall, "complete"),
            *jnp.linalg.qr(tall),
            *jnp.linalg.qr(wide),
            jnp.linalg.solve(tall[:, :7], tall[:, 7:14]),
            jnp.linalg.det(tall[:, :7]),
        )

    assert_like_jax(program, tall, wide, kind=kind)


def test_factors_of_large_matrices() -> None:
    a = matrices(E.F32, (200, 150))

    def program(a: Any) -> Any:
        return *jax.lax.linalg.lu(a), *jnp.linalg.qr(a)

    assert_like_jax(program, a)
    assert_natively(program, a)


def test_empty_matrices_of_jax() -> None:
    a = matrices(E.F32, (0, 4, 3))
    assert_like_jax(lambda a: (*jax.lax.linalg.lu(a), *jnp.linalg.qr(a)), a)


def test_a_matrix_without_factor_is_reported_to_jax() -> None:
    a = np.array([[[1, 2], [2, 1]], [[2, 0], [9, 2]]], np.float32)

    def program(a: Any) -> Any:
        lower = jax.lax.linalg.cholesky(a, symmetrize_input=False)
        return lower, jax.scipy.linalg.cholesky(a), jnp.linalg.inv(a - a)

    assert_like_jax(program, a)
