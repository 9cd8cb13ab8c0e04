"""fft, cholesky, triangular-solve and LAPACK's custom calls on drawn matrices, against XLA's CPU.

Results are held normwise, within 64 * (size + 8) * eps of the largest of the operands and results.
Vectors of decompositions agree because both sides run LAPACK; where blocking rounds differently
the matrices are drawn well conditioned.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import by_both
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds_reductions import assert_within, info, magnitudes
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both
from xla_client import Op, ops
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.types.element_type import ElementType as E

lal = jax.lax.linalg
TYPES = (E.F32, E.F64, E.C64, E.C128)
BATCHES = st.sampled_from([(), (), (2,), (2, 1), (0,)])


def assert_near(results: Any, size: int, *inputs: Any, factor: float = 64) -> None:
    """Check results normwise, and that special values have the same positions."""
    for ours, theirs in results:
        if ours.dtype.kind in "bi":
            np.testing.assert_array_equal(ours, theirs)
            continue
        largest = max(float(magnitudes(part).max(initial=1)) for part in (ours, theirs, *inputs))
        assert_within(ours, theirs, factor * (size + 8) * float(info(ours.dtype).eps) * largest)


@drawn(8, 200)
@given(st.data())
def test_fft(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(FftType))
    kinds = (E.F32, E.F64) if kind is FftType.RFFT else (E.C64, E.C128)
    element = data.draw(st.sampled_from(kinds))
    length = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    sizes = [*length[:-1], length[-1] // 2 + 1] if kind is FftType.IRFFT else length
    batch = data.draw(BATCHES)
    operand = drawing.array(element, (*batch, *sizes), data.draw(drawing.seeds()), special=False)
    results = both(lambda x: ops.fft(x, kind, length), [operand])
    assert_near(results, int(np.prod(length)), operand)


def definite(kind: E, batch: tuple[int, ...], size: int, seed: int) -> Any:
    """Hermitian matrices whose eigenvalues are between 1 and a few times their size."""
    factor = drawing.array(kind, (*batch, size, size), seed, special=False)
    factor = factor / (1 + np.abs(factor))
    return (factor @ factor.conj().swapaxes(-1, -2) + np.eye(size)).astype(kind.dtype)


@drawn(5, 150)
@given(st.data())
def test_cholesky(data: st.DataObject) -> None:
    """A matrix without a factor is NaN all over.

    The operation's definition leaves open what such a matrix gives; XLA takes the root of a single
    number, 0 among them.
    """
    kind, batch = data.draw(st.sampled_from(TYPES)), data.draw(BATCHES)
    size, lower = data.draw(st.integers(0, 9)), data.draw(st.booleans())
    matrices = definite(kind, batch, size, data.draw(drawing.seeds()))
    if matrices.size and data.draw(st.booleans()):
        matrices.reshape(-1, size, size)[0, -1, -1] = data.draw(
            st.sampled_from([-1, np.nan, *([0] if size > 1 else [])])
        )
    results = both(lambda x: ops.cholesky(x, lower), [matrices])
    cut = np.tril if lower else np.triu
    # The other triangle is unspecified.
    assert_near([(cut(ours), cut(theirs)) for ours, theirs in results], size, matrices)


@drawn(6, 200)
@given(st.data())
def test_triangular_solve(data: st.DataObject) -> None:
    kind, batch = data.draw(st.sampled_from(TYPES)), data.draw(BATCHES)
    size, count = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 4))
    left, lower, unit = (data.draw(st.booleans()) for _ in range(3))
    transpose = data.draw(st.sampled_from(Transpose))
    seed = data.draw(drawing.seeds())
    matrices = drawing.array(kind, (*batch, size, size), seed, special=False)
    matrices = (matrices / (1 + np.abs(matrices)) / size + 2 * np.eye(size)).astype(kind.dtype)
    sizes = (size, count) if left else (count, size)
    right = drawing.array(kind, (*batch, *sizes), seed + 1, special=False)

    def solve(a: Op, b: Op) -> Op:
        return ops.triangular_solve(a, b, left, lower, unit, transpose)

    assert_near(both(solve, [matrices, right]), size, right)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


# Functions of one matrix, with results made comparable where LAPACK leaves a choice open.
RECTANGULAR: dict[str, Callable[[Any], Any]] = {
    "qr": lambda x: lal.qr(x, full_matrices=False),
    "qr_full": lambda x: lal.qr(x, full_matrices=True),
    "qr_pivoting": lambda x: lal.qr(x, pivoting=True, full_matrices=False),
    "lu": lal.lu,
    "svd_values": lambda x: lal.svd(x, compute_uv=False),
    "svd_default": lambda x: svd_invariants(x, lal.SvdAlgorithm.DEFAULT),
    "svd_qr": lambda x: svd_invariants(x, lal.SvdAlgorithm.QR),
    "householder_product": lambda x: lal.householder_product(
        x[..., :, : min(x.shape[-2:])], x[..., 0, : min(x.shape[-2:])]
    ),
}
SQUARE: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: lal.cholesky(x @ adjoint(x) + jax.numpy.eye(x.shape[-1], dtype=x.dtype)),
    "eigh": lambda x: eigh_invariants(x),
    "eig": lambda x: eig_invariants(x),
    "hessenberg": lal.hessenberg,
    "tridiagonal_lower": lambda x: lal.tridiagonal(x + adjoint(x), lower=True)[1:],
    "tridiagonal_upper": lambda x: lal.tridiagonal(x + adjoint(x), lower=False)[1:],
    "schur": lambda x: schur_invariants(x),
}


def svd_invariants(x: Any, algorithm: Any) -> Any:
    left, values, right = lal.svd(x, full_matrices=False, algorithm=algorithm)
    return (left * values[..., None, :].astype(left.dtype)) @ right, values, adjoint(left) @ left


def eigh_invariants(x: Any) -> Any:
    vectors, values = lal.eigh(x + adjoint(x))
    return (vectors * values[..., None, :].astype(vectors.dtype)) @ adjoint(vectors), values


def eig_invariants(x: Any) -> Any:
    values, vectors = lal.eig(x, compute_left_eigenvectors=False)
    return x @ vectors - vectors * values[..., None, :], jax.numpy.sum(values, -1)


def schur_invariants(x: Any) -> Any:
    form, basis = lal.schur(x)
    return basis @ form @ adjoint(basis), adjoint(basis) @ basis


def matrices_of(data: st.DataObject, *, square: bool) -> Any:
    kind, batch = data.draw(st.sampled_from(TYPES)), data.draw(st.sampled_from([(), (2,), (1, 2)]))
    rows, columns = (data.draw(st.integers(1, 7)) for _ in range(2))
    sizes = (*batch, rows, rows if square else columns)
    return drawing.array(kind, sizes, data.draw(drawing.seeds()), special=False)


@pytest.mark.parametrize("name", RECTANGULAR)
@drawn(1, 30)
@given(st.data())
def test_of_matrices(name: str, data: st.DataObject) -> None:
    matrices = matrices_of(data, square=False)
    if name == "householder_product" and matrices.shape[-1] > matrices.shape[-2]:
        matrices = matrices.swapaxes(-1, -2)
    compare(RECTANGULAR[name], matrices)


@pytest.mark.parametrize("name", SQUARE)
@drawn(1, 30)
@given(st.data())
def test_of_square_matrices(name: str, data: st.DataObject) -> None:
    compare(SQUARE[name], matrices_of(data, square=True))


def compare(function: Callable[..., Any], *arrays: Any) -> None:
    largest = 1 + float(magnitudes(arrays[0]).max(initial=0))
    assert_near(by_both(function, arrays), arrays[0].shape[-2], np.float64(largest**2), factor=512)


@drawn(2, 40)
@given(st.data())
def test_pivots_that_are_not_0_lead(data: st.DataObject) -> None:
    matrices = matrices_of(data, square=False)
    columns = matrices.shape[-1]
    pivots = data.draw(st.lists(st.integers(0, 1), min_size=columns, max_size=columns))
    order = np.broadcast_to(np.int32(pivots), (*matrices.shape[:-2], columns))

    def factored(x: Any, leading: Any) -> Any:
        from jax._src.lax.linalg import geqp3

        return geqp3(x, leading)

    compare(factored, matrices, np.ascontiguousarray(order))


@drawn(3, 60)
@given(st.data())
def test_tridiagonal_systems(data: st.DataObject) -> None:
    """Singular ones too, where small pivots are to be perturbed."""
    kind, batch = data.draw(st.sampled_from(TYPES)), data.draw(BATCHES)
    size, count, seed = data.draw(st.integers(1, 7)), 2, data.draw(drawing.seeds())
    perturbed = data.draw(st.booleans())
    below, diagonal, above = (
        drawing.array(kind, (*batch, size), seed + n, special=False) / 8 for n in range(3)
    )
    diagonal = diagonal / (1 + np.abs(diagonal)) + 4
    if perturbed and data.draw(st.booleans()):
        below, diagonal, above = (np.zeros_like(part) for part in (below, diagonal, above))
    right = drawing.array(kind, (*batch, size, count), seed + 3, special=False)
    diagonals = [part.astype(kind.dtype) for part in (below, diagonal, above)]
    results = by_both(
        lambda *x: lal.tridiagonal_solve(*x, perturb_singular=perturbed), [*diagonals, right]
    )
    assert_near(results, size, right)


@drawn(2, 40)
@given(st.data())
def test_approximate_extremes_are_exact_here(data: st.DataObject) -> None:
    """A sort that is not stable may return any of equal values first."""
    kind = data.draw(st.sampled_from((E.F32, E.F16, E.BF16)))
    sizes = data.draw(drawing.dimensions(1, 3, 20, zero=False))
    along = data.draw(st.integers(0, len(sizes) - 1))
    count = data.draw(st.integers(1, sizes[along]))
    array = drawing.array(kind, sizes, data.draw(drawing.seeds()), special=False)
    search = data.draw(st.sampled_from([jax.lax.approx_max_k, jax.lax.approx_min_k]))
    (values, expected), (places, _) = by_both(
        lambda x: search(x, count, reduction_dimension=along), [array]
    )
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(array, places, along), values)
    found = np.sort(places, axis=along)
    assert (np.diff(found, axis=along) > 0).all()
