"""JAX's linear algebra, which calls LAPACK by name on CPUs, against jaxlib's own LAPACK."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest

from tests.conformance.oracle import PLATFORM, by_both, by_jax, evaluated
from tests.conformance.sweep.draws.depth import FULL, paired
from tests.corpus.jax.programs import lower
from xla_contract.stubs import hlo_pb2

lal = jax.lax.linalg

TYPES = (np.float32, np.float64, np.complex64, np.complex128)
SIZE = 5
ULPS = 2e3
"""Largest difference allowed, relative and absolute, in multiples of the type's epsilon."""


def normal(dtype: Any, *dimensions: int, seed: int = 0) -> Any:
    random = np.random.default_rng([seed, *dimensions])
    values = random.standard_normal(dimensions)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(dimensions)
    return values.astype(dtype)


def definite(dtype: Any, *dimensions: int) -> Any:
    factor = normal(dtype, *dimensions)
    size = dimensions[-1]
    return factor @ np.conj(np.swapaxes(factor, -1, -2)) + size * np.eye(size, dtype=dtype)


def composed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of vectors and values, or on GPUs one of what these make.

    Vectors may have any factor of magnitude one there, and be any basis where values are zero.
    """

    def made(x: Any) -> Any:
        found = function(x)
        if len(found) == 2:
            values, left = found
            right = jnp.conj(jnp.swapaxes(left, -1, -2))
        else:
            left, values, right = found
        count = values.shape[-1]
        product = functools.partial(jnp.matmul, precision="highest")
        whole = product(left[..., :count] * values[..., None, :], right[..., :count, :])
        adjoint = jnp.conj(jnp.swapaxes(left, -1, -2))
        return values, whole, product(adjoint, left)

    return made if PLATFORM.startswith("cuda") else function


# Each takes a matrix with 7 rows and 5 columns.
OF_ONE: dict[str, Callable[[Any], Any]] = {
    "qr": jnp.linalg.qr,
    "qr_complete": lambda x: jnp.linalg.qr(x, mode="complete"),
    "qr_pivoted": lambda x: lal.qr(x, pivoting=True, full_matrices=False),
    "svd": composed(jnp.linalg.svd),
    "svd_reduced": composed(lambda x: jnp.linalg.svd(x, full_matrices=False)),
    "svd_wide": composed(lambda x: jnp.linalg.svd(jnp.swapaxes(x, -1, -2))),
    "svd_values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "svd_values_full": lambda x: lal.svd(x, compute_uv=False, full_matrices=True),
    "svd_gesvd": composed(lambda x: lal.svd(x, algorithm=lal.SvdAlgorithm.QR)),
    "svd_gesvd_reduced": composed(
        lambda x: lal.svd(x, full_matrices=False, algorithm=lal.SvdAlgorithm.QR)
    ),
    "pinv": jnp.linalg.pinv,
    "lu_tall": lal.lu,
    "lu_wide": lambda x: lal.lu(jnp.swapaxes(x, -1, -2)),
    "hermitian": composed(lambda x: jnp.linalg.eigh(jnp.conj(jnp.swapaxes(x, -1, -2)) @ x)),
}
# Each takes a square matrix.
OF_SQUARE: dict[str, Callable[[Any], Any]] = {
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "slogdet": jnp.linalg.slogdet,
    "lu": jax.lax.linalg.lu,
    "eigvals": jnp.linalg.eigvals,
    "eig": jnp.linalg.eig,
    "eig_both": lambda x: lal.eig(
        x, compute_left_eigenvectors=True, compute_right_eigenvectors=True
    ),
    "eigvalsh": jnp.linalg.eigvalsh,
    "eigh_upper": composed(lambda x: jnp.linalg.eigh(x, UPLO="U", symmetrize_input=False)),
    "eigh": composed(lambda x: jnp.linalg.eigh(x, UPLO="L", symmetrize_input=False)),
    "schur": lal.schur,
    "schur_values": lambda x: lal.schur(x, compute_schur_vectors=False),
    "hessenberg": lambda x: jsl.hessenberg(x, calc_q=True),
    "tridiagonal_lower": lambda x: lal.tridiagonal(x, lower=True)[1:],
    "tridiagonal_upper": lambda x: lal.tridiagonal(x, lower=False)[1:],
    "expm": jsl.expm,
}
OF_PAIR: dict[str, Callable[[Any, Any], Any]] = {
    "solve": jnp.linalg.solve,
    "cho_solve": lambda a, b: jsl.cho_solve((a, True), b),
    "lower": lambda a, b: jsl.solve_triangular(a, b, lower=True),
    "upper_adjoint_unit": lambda a, b: jsl.solve_triangular(a, b, trans=2, unit_diagonal=True),
    "lower_transposed": lambda a, b: jsl.solve_triangular(a, b, trans=1, lower=True),
    "right": lambda a, b: lal.triangular_solve(a, jnp.swapaxes(b, -1, -2), conjugate_a=True),
}
ALONE: dict[str, Callable[[Any], Any]] = {
    "sqrtm": jsl.sqrtm,
    "schur_complex": lambda x: jsl.schur(x, output="complex"),
    "polar": jsl.polar,
    "lstsq": lambda x: jnp.linalg.lstsq(x, x[:, 0]),
}


def compare(function: Callable[..., Any], *arguments: Any) -> None:
    same(by_both(function, arguments), arguments[0].dtype)


def same(results: Iterable[tuple[Any, Any]], dtype: Any) -> None:
    precision = np.finfo(dtype).eps * ULPS
    for found, wanted in results:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=precision, atol=precision)


BATCHES = [*((dtype, (2, 3)) for dtype in TYPES), (np.float32, ())]
types = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)

FORMS: tuple[tuple[dict[str, Callable[..., Any]], Callable[..., tuple[Any, ...]]], ...] = (
    (OF_ONE, lambda dtype, batch: (normal(dtype, *batch, 7, SIZE),)),
    (OF_SQUARE, lambda dtype, batch: (normal(dtype, *batch, SIZE, SIZE),)),
    (
        OF_PAIR,
        lambda dtype, batch: (
            definite(dtype, *batch, SIZE, SIZE),
            normal(dtype, *batch, SIZE, 3),
        ),
    ),
)
"""Functions, and what makes their arguments of a type and batch dimensions."""


def called() -> Iterator[Any]:
    """Yield functions with arguments of types of elements and batch dimensions.

    In the slice a function has one real and one complex type, by turns the next ones.
    """
    for (table, arguments), kind in itertools.product(FORMS, "fc"):
        batches = [each for each in BATCHES if np.dtype(each[0]).kind == kind]
        for name, (dtype, batch) in paired(table, batches):
            made = functools.partial(arguments, dtype, batch)
            case = f"{name}-{np.dtype(dtype).name}{len(batch)}"
            yield pytest.param(table[name], made, id=case)


@pytest.mark.parametrize(("function", "arguments"), called())
def test_gives_lapack_s_numbers(
    function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]
) -> None:
    compare(function, *arguments())


@pytest.mark.parametrize("name", ALONE)
@types
def test_without_batch(name: str, dtype: Any) -> None:
    compare(ALONE[name], definite(dtype, SIZE, SIZE))


@types
def test_householder_products(dtype: Any) -> None:
    compare(lal.householder_product, normal(dtype, 2, 6, 4), normal(dtype, 2, 3))
    packed, factors, other = normal(dtype, 2, 6, 4), normal(dtype, 2, 4), normal(dtype, 2, 6, 6)
    for left in (True, False):
        for transpose in (True, False):
            compare(
                lambda *x, left=left, transpose=transpose: lal.ormqr(
                    *x, left=left, transpose=transpose
                ),
                packed,
                factors,
                other,
            )


@types
def test_matrices_of_one_element_and_of_none(dtype: Any) -> None:
    for number, (name, function) in enumerate((OF_ONE | OF_SQUARE).items()):
        # In the slice a function has every second of the types.
        if FULL or number % 2 == TYPES.index(dtype) % 2:
            try:
                compare(function, normal(dtype, 1, 1))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
    for function in (lal.lu, jnp.linalg.qr, jnp.linalg.svd):
        compare(function, normal(dtype, 0, 3))
        compare(function, normal(dtype, 3, 0))
    compare(jnp.linalg.cholesky, normal(dtype, 0, 2, 2))
    compare(lal.tridiagonal_solve, *(normal(dtype, 1),) * 3, normal(dtype, 1, 2))


@types
def test_what_has_no_answer_is_nan_or_infinite_as_there(dtype: Any) -> None:
    singular = np.ones((3, 3), dtype)
    bad = np.full((3, 3), np.nan, dtype)
    for function in (jnp.linalg.eigvals, jnp.linalg.cholesky, jnp.linalg.qr):
        compare(function, bad)
    compare(jnp.linalg.inv, np.zeros((2, 2), dtype))
    compare(jnp.linalg.det, singular)


PORTABLE: dict[str, Callable[[Any], Any]] = {
    "qr": jnp.linalg.qr,
    "qr_complete": lambda x: jnp.linalg.qr(x, mode="complete"),
    "lu": lal.lu,
    "eigh": lambda x: (
        lal.eigh(x, implementation=lal.EighImplementation.JACOBI)
        if x.shape[-1] == x.shape[-2]
        else lal.lu(x)
    ),
}


@pytest.mark.parametrize("name", PORTABLE)
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("columns", [5, 3])
def test_as_lowered_for_other_platforms(name: str, batch: tuple[int, ...], columns: int) -> None:
    matrices = normal(np.float32, *batch, SIZE, columns)
    if name == "eigh" and columns == SIZE:
        matrices = definite(np.float32, *batch, SIZE, SIZE)
    function = PORTABLE[name]
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, matrices, platform="tpu"))
    text = proto.SerializeToString()
    assert b"lapack" not in text
    theirs = by_jax(jnp.linalg.eigh if name == "eigh" and columns == SIZE else function, [matrices])
    ours = evaluated(proto, [matrices])
    if name == "eigh" and columns == SIZE:
        (vectors, values), (wanted, _) = ours, theirs[::-1]
        same([(values, theirs[0]), (np.abs(vectors), np.abs(wanted))], np.float32)
        return
    same(zip(ours, theirs, strict=True), np.float32)
