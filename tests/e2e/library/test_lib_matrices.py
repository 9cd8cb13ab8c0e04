"""Factors, solvers and loops of `xla_client.lib` on a real server, against numpy and scipy."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from xla_client import ops
from xla_client.lib import factorizations, loops, matrix, solvers

TYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(4, 4), (5, 3), (3, 5), (2, 3, 4, 3), (1, 1), (0, 3, 3), (0, 2)]


def _random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def _tolerance(dtype: Any) -> dict[str, float]:
    eps = float(np.finfo(dtype).eps)
    return {"rtol": 200 * eps, "atol": 200 * eps}


def _adjoint(array: Any) -> Any:
    return array.swapaxes(-1, -2).conj()


def _identities(array: Any) -> Any:
    return np.broadcast_to(np.eye(array.shape[-1]), (*array.shape[:-2], *array.shape[-1:] * 2))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(run, shape, dtype):
    a, close = _random(shape, dtype), _tolerance(dtype)
    for full in (False, True):
        q, r = run(lambda x, f=full: factorizations.qr_explicit(x, full_matrices=f), a)
        expected = np.linalg.qr(a, "complete" if full else "reduced")
        assert (q.dtype, q.shape, r.shape) == (dtype, expected.Q.shape, expected.R.shape)
        np.testing.assert_allclose(q @ r, a, **close)
        np.testing.assert_allclose(_adjoint(q) @ q, _identities(q), **close)
        np.testing.assert_array_equal(r, np.triu(r))
        np.testing.assert_allclose(np.abs(r), np.abs(expected.R), **close)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu(run, shape, dtype):
    a, close = _random(shape, dtype), _tolerance(dtype)
    lower, upper, order = run(factorizations.lu_explicit, a)
    np.testing.assert_allclose(lower @ upper, np.take_along_axis(a, order[..., None], -2), **close)
    np.testing.assert_array_equal(upper, np.triu(upper))
    np.testing.assert_array_equal(np.diagonal(lower, 0, -2, -1), 1)
    assert (np.abs(lower) <= 1 + close["rtol"]).all() or np.dtype(dtype).kind == "c"
    for index in np.ndindex(shape[:-2] if a.size else (0,)):
        packed, pivots = scipy.linalg.lu_factor(a[index])
        found = run(factorizations.lu_decomposition, a[index])
        np.testing.assert_allclose(found[0], packed, **close)
        np.testing.assert_array_equal(found[1], pivots)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_eigh_reads_one_triangle(run, dtype, lower):
    close = _tolerance(dtype)
    for shape in [(4, 4), (2, 3, 3), (0, 0), (1, 1)]:
        a = _random(shape, dtype)
        whole = run(lambda x: matrix.symmetrize(x, lower=lower), a)
        np.testing.assert_array_equal(whole, _adjoint(whole))
        kept = np.tril if lower else np.triu
        np.testing.assert_array_equal(kept(whole.real), kept(a.real))
        vectors, values = run(lambda x: factorizations.eigh(x, lower=lower), a)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(whole), **close)
        np.testing.assert_allclose(whole @ vectors, vectors * values[..., None, :], **close)
        np.testing.assert_allclose(_adjoint(vectors) @ vectors, _identities(vectors), **close)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(run, shape, dtype):
    a, close = _random(shape, dtype), _tolerance(dtype)
    for full in (False, True):
        u, values, vh = run(lambda x, f=full: factorizations.svd(x, full_matrices=f), a)
        expected = np.linalg.svd(a, full_matrices=full)
        assert [u.shape, vh.shape] == [expected.U.shape, expected.Vh.shape]
        np.testing.assert_allclose(values, expected.S, **close)
        k = values.shape[-1]
        np.testing.assert_allclose(u[..., :k] * values[..., None, :] @ vh[..., :k, :], a, **close)
        np.testing.assert_allclose(_adjoint(u) @ u, _identities(u), **close)


@pytest.mark.parametrize("dtype", TYPES)
def test_solve_inverse_and_determinants(run, dtype):
    close = _tolerance(dtype)
    for batch in [(), (2,), (0,)]:
        a, b = _random((*batch, 4, 4), dtype), _random((*batch, 4, 3), dtype, seed=1)
        a = a + 3 * np.eye(4, dtype=dtype)
        np.testing.assert_allclose(a @ run(solvers.solve, a, b), b, **close)
        np.testing.assert_allclose(run(solvers.inverse, a), np.linalg.inv(a), **close)
        determinant, (sign, logarithm) = (
            run(solvers.determinant, a),
            run(solvers.slogdet, a),
        )
        np.testing.assert_allclose(determinant, np.linalg.det(a), **close)
        expected = np.linalg.slogdet(a)
        np.testing.assert_allclose(sign, expected.sign, **close)
        np.testing.assert_allclose(logarithm, expected.logabsdet, **close)
        with np.errstate(invalid="ignore"):
            expected_log = np.log(np.linalg.det(a))
        np.testing.assert_allclose(run(solvers.logdet, a), expected_log, **close)


def test_determinants_of_singular_and_turned_matrices(run):
    a = np.float64([[[0, 1], [1, 0]], [[1, 2], [2, 4]], [[2, 0], [0, 3]]])
    assert run(solvers.determinant, a).tolist() == [-1, 0, 6]
    sign, logarithm = run(solvers.slogdet, a)
    assert sign.tolist() == [-1, 0, 1]
    np.testing.assert_allclose(logarithm, [0, -np.inf, np.log(6)])


@pytest.mark.parametrize("dtype", TYPES)
def test_cholesky_solve(run, dtype):
    root = _random((2, 4, 4), dtype)
    a = root @ _adjoint(root) + np.eye(4, dtype=dtype)
    b = _random((2, 4, 2), dtype, seed=1)
    for lower in (True, False):
        x = run(
            lambda a, b, lo=lower: solvers.cholesky_solve(ops.cholesky(a, lo), b, lower=lo), a, b
        )
        np.testing.assert_allclose(a @ x, b, **_tolerance(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [0, 1, 2, 6])
def test_tridiagonal_solve(run, size, dtype):
    lower, upper = _random((2, size), dtype), _random((2, size), dtype, seed=1)
    diagonal = _random((2, size), dtype, seed=2) + np.asarray(6, dtype)
    b = _random((2, size, 3), dtype, seed=3)
    found = run(solvers.tridiagonal_solve, lower, diagonal, upper, b)
    assert found.shape == b.shape
    for number in range(2):
        whole = np.diag(diagonal[number]) if size else np.zeros((0, 0), dtype)
        whole = whole + np.diag(lower[number, 1:], -1) + np.diag(upper[number, :-1], 1)
        whole = whole[:size, :size]
        np.testing.assert_allclose(whole @ found[number], b[number], **_tolerance(dtype))


def test_loops_written_as_functions(run):
    def doubled_until_large(x: Any) -> Any:
        return loops.while_loop(
            lambda values: ops.lt(values[0], 1000),
            lambda values: [values[0] * 2, values[1] + 1],
            [x, x.builder.constant(0)],
        )

    assert [each.item() for each in run(doubled_until_large, np.int32(3))] == [1536, 9]

    def squares(x: Any) -> Any:
        def body(index: Any, values: Any) -> Any:
            wide = ops.convert_element_type(index, x.shape.element_type)
            return [values[0] + wide * wide]

        return loops.for_each_index(5, body, [x])

    assert run(squares, np.float32(0.5))[0] == 30.5
    assert run(lambda x: loops.for_each_index(0, lambda i, v: v, [x]), np.float32(7))[0] == 7
