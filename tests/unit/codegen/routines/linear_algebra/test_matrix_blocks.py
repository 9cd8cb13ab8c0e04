"""Large matrices by blocks, and deep products in parts: on small ones, made to be done so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.lower.contraction import dot as lower_dot
from xla_server.codegen.lower.linear_algebra import factorizations as lower_factorizations
from xla_server.codegen.lower.linear_algebra import triangular as lower_linear_algebra
from xla_server.codegen.routines.linear_algebra.matrix_blocks import BLOCK, PIECE_WORK, is_by_blocks

ORDER = 2 * BLOCK + 40


@pytest.fixture(autouse=True)
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lower_factorizations, lower_linear_algebra):
        monkeypatch.setattr(module, "is_by_blocks", lambda *sizes: True)


def drawn(*sizes: int, dtype: Any) -> Any:
    random = np.random.default_rng(sizes)
    array = random.standard_normal(sizes)
    if np.dtype(dtype).kind == "c":
        array = array + 1j * random.standard_normal(sizes)
    return array.astype(dtype)


def ran(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return on_cpu(imported(lower(function, *arguments)), arguments, Cpu(threads=2))


def assert_close(found: Any, expected: Any) -> None:
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() <= 1e-4 * scale


@pytest.mark.parametrize(("is_lower", "dtype"), [(True, np.float32), (False, np.complex64)])
def test_cholesky(is_lower: bool, dtype: Any) -> None:
    a = drawn(ORDER, ORDER, dtype=dtype)
    a = (a @ a.conj().T / ORDER + np.eye(ORDER)).astype(dtype)

    def program(a: Any) -> Any:
        return lax.linalg.cholesky(a if is_lower else a.T.conj(), symmetrize_input=False)

    (factor,) = ran(program, a)
    assert not np.triu(factor, 1).any()
    assert_close(factor @ factor.conj().T, a)


def test_a_matrix_without_a_factor_is_known_by_any_block() -> None:
    a = np.eye(ORDER, dtype=np.float32)
    a[BLOCK + 3, BLOCK + 3] = -1
    (factor,) = ran(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), a)
    assert np.isnan(factor[np.tril_indices(ORDER)]).all()


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        (ORDER, ORDER + 100, np.complex64),
        (ORDER + 100, ORDER, np.float32),
    ],
)
def test_lu(rows: int, columns: int, dtype: Any) -> None:
    a = drawn(rows, columns, dtype=dtype)
    packed, pivots, order = ran(lax.linalg.lu, a)
    least = min(rows, columns)
    left = np.tril(packed[:, :least], -1) + np.eye(rows, least)
    assert np.abs(left).max() <= 1.5
    assert_close(left @ np.triu(packed[:least]), a[order])
    assert (pivots >= np.arange(least)).all()


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "is_whole"),
    [
        (ORDER, ORDER, np.float32, False),
        (ORDER + 100, ORDER, np.complex64, True),
        (ORDER, ORDER + 100, np.float32, True),
    ],
)
def test_qr(rows: int, columns: int, dtype: Any, is_whole: bool) -> None:
    a = drawn(rows, columns, dtype=dtype)
    left, right = ran(lambda a: lax.linalg.qr(a, full_matrices=is_whole), a)
    assert not np.tril(right, -1).any()
    assert_close(left @ right, a)
    assert_close(left.conj().T @ left, np.eye(left.shape[1]))


@pytest.mark.parametrize("transpose", ["none", "transposed", "adjoint"])
@pytest.mark.parametrize("is_lower", [True, False])
@pytest.mark.parametrize("is_left", [True, False])
def test_triangular_solve(is_left: bool, is_lower: bool, transpose: str) -> None:
    dtype = np.complex64 if transpose == "adjoint" else np.float32
    a = drawn(ORDER, ORDER, dtype=dtype) / 40 + 4 * np.eye(ORDER)
    a = a.astype(dtype)
    sizes = (ORDER, 1100) if is_left else (1100, ORDER)
    b = drawn(*sizes, dtype=dtype)

    def program(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(
            a,
            b,
            left_side=is_left,
            lower=is_lower,
            transpose_a=transpose != "none",
            conjugate_a=transpose == "adjoint",
        )

    (found,) = ran(program, a, b)
    triangle = np.tril(a) if is_lower else np.triu(a)
    if transpose != "none":
        triangle = triangle.T.conj() if transpose == "adjoint" else triangle.T
    assert_close(triangle @ found if is_left else found @ triangle, b)


def test_deep_products_are_added_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_dot, "PIECE_WORK", {"c64": 1})
    a, b = drawn(20, 300, dtype=np.complex64), drawn(300, 30, dtype=np.complex64)
    for program in (lambda a, b: a @ b, lambda a, b: (b.T @ a.T).T):
        (found,) = ran(program, a, b)
        assert_close(found, a @ b)


def test_only_large_matrices_are_done_by_blocks() -> None:
    assert not is_by_blocks("f32", 2 * BLOCK, 1 << 40)
    assert not is_by_blocks("f32", 4 * BLOCK, PIECE_WORK["f32"])
    assert is_by_blocks("f32", 4 * BLOCK, 4 * PIECE_WORK["f32"])
