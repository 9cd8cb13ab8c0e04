"""Factors of matrices in the last two dimensions, those before them being a batch.

QR, LU and eigenvectors are custom calls of the targets that XLA's own client library calls: `Qr`,
`ProductOfElementaryHouseholderReflectors`, `LuDecomposition` and `Eigh` belong to no platform, and
the element type is in the shape and not in the target's name. The singular value decomposition has
no target of that kind and calls LAPACK's gesdd as JAX does on CPUs.

Matrices are of f32, f64, c64 or c128; for others, and for ranks below 2, the functions raise
ShapeError.
"""

from typing import NamedTuple

from xla_client import ops
from xla_client.builder import Op
from xla_client.coercion.checked import checked
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import arithmetic, constants, matrix
from xla_contract.element_type import ElementType, ElementTypeLike
from xla_contract.errors import ShapeError
from xla_contract.shape import Shape

_LAPACK_PREFIX = {
    ElementType.F32: "s",
    ElementType.F64: "d",
    ElementType.C64: "c",
    ElementType.C128: "z",
}
_API_VERSION_TYPED_FFI = 4


class Qr(NamedTuple):
    """R on and above the diagonal, reflectors below it, and the reflectors' factors."""

    q_and_r: Op
    taus: Op


class Lu(NamedTuple):
    """U on and above the diagonal and L below it; its diagonal of ones is not kept.

    `pivots`, s32: row i was exchanged with row pivots[i], from the first on. `permutation`, s32:
    row i of L U is row permutation[i] of the operand.
    """

    lu: Op
    pivots: Op
    permutation: Op


class Eigh(NamedTuple):
    """Eigenvectors, as columns, and eigenvalues, real and ascending."""

    vectors: Op
    values: Op


class Svd(NamedTuple):
    """u, the singular values, real and descending, and the adjoint of v: u diag(values) vh."""

    u: Op
    values: Op
    vh: Op


@checked
def qr(operand: Op) -> Qr:
    """The packed QR factors of [..., m, n] matrices: [..., m, n] and [..., min(m, n)].

    Semantics: XLA's Qr, which is LAPACK's geqrf.
    """
    batch, rows, columns = matrix_dimensions("qr", operand)
    taus = operand.shape.with_dimensions((*batch, min(rows, columns)))
    return Qr(*_called("Qr", [operand], [operand.shape, taus]))


@checked
def householder_product(reflectors: Op, taus: Op) -> Op:
    """The first n columns of the product of k reflectors: [..., m, n] from those and [..., k].

    The reflectors stand below the diagonal as `qr` leaves them; m >= n >= k. Semantics: XLA's
    ProductOfElementaryHouseholderReflectors, which is LAPACK's orgqr. Raises ShapeError.
    """
    batch, rows, columns = matrix_dimensions("householder_product", reflectors)
    count = taus.shape.dimensions[-1] if taus.shape.rank else 0
    fits = taus.shape.dimensions == (*batch, count) and count <= columns <= rows
    if not fits or taus.shape.element_type is not reflectors.shape.element_type:
        raise ShapeError(
            "factors must be one per reflector, at most as many as columns, and those at most as "
            f"many as rows, got {taus.shape} for {reflectors.shape}"
        ).at("householder_product")
    target = "ProductOfElementaryHouseholderReflectors"
    shape = reflectors.shape.without_layout()
    return ops.custom_call([reflectors, taus], target, shape)


@checked
def qr_explicit(operand: Op, *, full_matrices: bool = False) -> tuple[Op, Op]:
    """(q, r) with q r the operand: [..., m, k] and [..., k, n], k being min(m, n).

    With `full_matrices` q is square, [..., m, m], and r as large as the operand.
    """
    batch, rows, columns = matrix_dimensions("qr_explicit", operand)
    smaller = min(rows, columns)
    count = rows if full_matrices else smaller
    packed, taus = qr(operand)
    zero = constants.zero(operand.builder, operand.shape.element_type)
    reflectors = ops.slice_in_dim(packed, 0, smaller, 1, -1)
    reflectors = ops.pad_in_dim(reflectors, zero, -1, 0, count - smaller)
    r = matrix.upper_triangle(ops.slice_in_dim(packed, 0, count, 1, len(batch)))
    return householder_product(reflectors, taus), r


@checked
def lu_decomposition(operand: Op) -> Lu:
    """The LU factors of [..., m, n] matrices with partial pivoting; see `Lu`.

    A singular matrix has a zero on the diagonal of U. Semantics: XLA's LuDecomposition, which is
    LAPACK's getrf with pivots counted from 0.
    """
    batch, rows, columns = matrix_dimensions("lu_decomposition", operand)
    pivots = Shape.array(ElementType.S32, (*batch, min(rows, columns)))
    permutation = Shape.array(ElementType.S32, (*batch, rows))
    return Lu(*_called("LuDecomposition", [operand], [operand.shape, pivots, permutation]))


@checked
def lu_explicit(operand: Op) -> tuple[Op, Op, Op]:
    """(l, u, permutation): [..., m, k], [..., k, n] and [..., m], k being min(m, n)."""
    batch, rows, columns = matrix_dimensions("lu_explicit", operand)
    smaller = min(rows, columns)
    factors = lu_decomposition(operand)
    below = ops.slice_in_dim(matrix.lower_triangle(factors.lu, -1), 0, smaller, 1, -1)
    identity = constants.identity_matrix(operand.builder, operand.shape.element_type, rows, smaller)
    lower = ops.add(below, ops.broadcast(identity, batch))
    upper = matrix.upper_triangle(ops.slice_in_dim(factors.lu, 0, smaller, 1, len(batch)))
    return lower, upper, factors.permutation


@checked
def eigh(operand: Op, *, lower: bool = True) -> Eigh:
    """Eigenvectors and eigenvalues of hermitian [..., n, n] matrices.

    Only the named triangle is read. Semantics: XLA's SelfAdjointEig. Raises ShapeError for
    matrices that are not square.
    """
    batch, size = square_dimensions("eigh", operand)
    real = operand.shape.element_type.real_component
    values = Shape.array(real, (*batch, size))
    # Lower, sorted, at most so many sweeps, and the tolerance at which a platform may stop.
    options = f"{int(lower)},1,100,1e-6".encode()
    return Eigh(*_called("Eigh", [operand], [operand.shape, values], options))


@checked
def svd(operand: Op, *, full_matrices: bool = False) -> Svd:
    """The singular value decomposition of [..., m, n] matrices.

    u is [..., m, k], the values [..., k] and vh [..., k, n], k being min(m, n); with
    `full_matrices` u is [..., m, m] and vh [..., n, n].
    """
    batch, rows, columns = matrix_dimensions("svd", operand)
    element_type, smaller = operand.shape.element_type, min(rows, columns)
    left = (rows, rows if full_matrices else smaller)
    right = (columns if full_matrices else smaller, columns)
    results = [
        operand.shape,
        Shape.array(element_type.real_component, (*batch, smaller)),
        Shape.array(element_type, (*batch, *left)),
        Shape.array(element_type, (*batch, *right)),
        Shape.array(ElementType.S32, batch),
    ]
    _, values, u, vh, _ = _called(
        f"lapack_{_LAPACK_PREFIX[element_type]}gesdd_ffi",
        [operand],
        results,
        f"{{mode = {ord('A' if full_matrices else 'S')} : ui8}}".encode(),
        _API_VERSION_TYPED_FFI,
    )
    return Svd(u, values, vh)


@checked
def matrix_dimensions(function: str, operand: Op) -> tuple[tuple[int, ...], int, int]:
    """(batch, rows, columns); ShapeError for arrays that are not matrices of these types."""
    if operand.shape.rank < 2 or operand.shape.element_type not in _LAPACK_PREFIX:
        raise ShapeError(f"matrices of f32, f64, c64 or c128 are needed, got {operand.shape}").at(
            function
        )
    *batch, rows, columns = operand.shape.dimensions
    return tuple(batch), rows, columns


@checked
def square_dimensions(function: str, operand: Op) -> tuple[tuple[int, ...], int]:
    """(batch, size); ShapeError for matrices that are not square too."""
    batch, rows, columns = matrix_dimensions(function, operand)
    if rows != columns:
        raise ShapeError(
            f"the matrices must be square, got {rows} rows and {columns} columns of {operand.shape}"
        ).at(function)
    return batch, rows


@checked
def permutation_sign(pivots: Op, element_type: ElementTypeLike) -> Op:
    """1 or -1, in this type: the sign of the permutation that `Lu.pivots` makes."""
    element_type = as_element_type(element_type)
    moved = ops.ne(pivots, constants.iota_like(pivots, -1))
    count = arithmetic.sum(ops.convert_element_type(moved, ElementType.S32), [-1])
    return ops.convert_element_type(1 - ops.rem(count, 2) * 2, element_type)


def _called(
    target: str,
    operands: list[Op],
    results: list[Shape],
    options: bytes = b"",
    api_version: int = 1,
) -> list[Op]:
    shape = Shape.tuple_of([result.without_layout() for result in results])
    pair = ops.custom_call(operands, target, shape, options, api_version=api_version)
    return [ops.get_tuple_element(pair, number) for number in range(len(results))]
