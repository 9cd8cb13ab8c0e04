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
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import arithmetic, constants, matrix
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape

_LAPACK_PREFIX = {
    ElementType.F32: "s",
    ElementType.F64: "d",
    ElementType.C64: "c",
    ElementType.C128: "z",
}
_API_VERSION_TYPED_FFI = 4
"""API_VERSION_TYPED_FFI of XLA's CustomCallApiVersion."""


class Qr(NamedTuple):
    """The packed QR factors of matrices.

    Attributes:
        q_and_r: R on and above the diagonal, Householder reflectors below it.
        taus: The reflectors' factors.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> lib.factorizations.qr(x).taus
        %get-tuple-element.4: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/qr.h
    """

    q_and_r: Op
    taus: Op


class Lu(NamedTuple):
    """The packed LU factors of matrices, and their row exchanges.

    Attributes:
        lu: U on and above the diagonal and L below it; the ones on the diagonal of L are left out.
        pivots: Exchanges, s32. Row i was exchanged with row pivots[i], from the first on.
        permutation: Order of the rows, s32. Row i of L U is row permutation[i] of the operand.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> lib.factorizations.lu_decomposition(x).pivots
        %get-tuple-element.4: s32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/lu_decomposition.h
    """

    lu: Op
    pivots: Op
    permutation: Op


class Eigh(NamedTuple):
    """The eigenvectors and eigenvalues of Hermitian matrices.

    Attributes:
        vectors: The eigenvectors, as columns.
        values: The eigenvalues, real and ascending.

    Example:
        >>> x = Builder("example").parameter(0, "c64[3,3]")
        >>> lib.factorizations.eigh(x).values
        %get-tuple-element.4: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/self_adjoint_eig.h
    """

    vectors: Op
    values: Op


class Svd(NamedTuple):
    """The singular value decomposition u diag(values) vh of matrices.

    Attributes:
        u: The left singular vectors, as columns.
        values: The singular values, real and descending.
        vh: The adjoint of the right singular vectors, as rows.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> lib.factorizations.svd(x).vh
        %get-tuple-element.6: f32[3,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.lax.linalg.svd.html
    """

    u: Op
    values: Op
    vh: Op


@checked
def qr(operand: Op) -> Qr:
    """The packed QR factors of [..., m, n] matrices.

    They are those of LAPACK's geqrf.

    Args:
        operand: Matrices in the last two dimensions.

    Returns:
        The packed factors, [..., m, n], and the reflectors' factors, [..., min(m, n)].

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> lib.factorizations.qr(x)
        Qr(q_and_r=%get-tuple-element.3: f32[4,3], taus=%get-tuple-element.4: f32[3])

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/qr.h
    """
    batch, rows, columns = matrix_dimensions("qr", operand)
    taus = operand.shape.with_dimensions((*batch, min(rows, columns)))
    return Qr(*_called("Qr", [operand], [operand.shape, taus]))


@checked
def householder_product(reflectors: Op, taus: Op) -> Op:
    """The first n columns of the product of k Householder reflectors.

    They are those of LAPACK's orgqr.

    Args:
        reflectors: [..., m, n] matrices with reflectors below the diagonal, as `qr` leaves them.
        taus: The reflectors' factors, [..., k], with m >= n >= k.

    Returns:
        The columns, [..., m, n].

    Raises:
        ShapeError: The factors do not fit the reflectors, or those are no matrices of f32, f64, c64
            or c128.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> packed, taus = lib.factorizations.qr(x)
        >>> lib.factorizations.householder_product(packed, taus)
        %custom-call.5: f32[4,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/qr.h
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
    """The QR factors of [..., m, n] matrices.

    Args:
        operand: Matrices in the last two dimensions.
        full_matrices: Whether q is square, [..., m, m], and r as large as the operand.

    Returns:
        (q, r) with q r the operand: [..., m, k] and [..., k, n], k being min(m, n).

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> q, r = lib.factorizations.qr_explicit(x)
        >>> print(q.shape, r.shape)
        f32[4,3] f32[3,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/qr.h
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
    """The LU factors of [..., m, n] matrices with partial pivoting.

    They are those of LAPACK's getrf, with pivots counted from 0. A singular matrix has a zero on
    the diagonal of U.

    Args:
        operand: Matrices in the last two dimensions.

    Returns:
        The packed factors, the pivots and the permutation; see `Lu`.

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3,3]")
        >>> lib.factorizations.lu_decomposition(x).lu
        %get-tuple-element.3: f32[3,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/lu_decomposition.h
    """
    batch, rows, columns = matrix_dimensions("lu_decomposition", operand)
    pivots = Shape.array(ElementType.S32, (*batch, min(rows, columns)))
    permutation = Shape.array(ElementType.S32, (*batch, rows))
    return Lu(*_called("LuDecomposition", [operand], [operand.shape, pivots, permutation]))


@checked
def lu_explicit(operand: Op) -> tuple[Op, Op, Op]:
    """The LU factors of [..., m, n] matrices as triangular matrices.

    Args:
        operand: Matrices in the last two dimensions.

    Returns:
        (l, u, permutation): [..., m, k], [..., k, n] and [..., m], k being min(m, n).

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> l, u, permutation = lib.factorizations.lu_explicit(x)
        >>> print(l.shape, u.shape, permutation.shape)
        f32[4,3] f32[3,3] s32[4]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/lu_decomposition.h
    """
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
    """The eigenvectors and eigenvalues of Hermitian [..., n, n] matrices.

    Args:
        operand: Square matrices in the last two dimensions.
        lower: Whether to read the lower triangle and not the upper one.

    Returns:
        The eigenvectors, as columns, and the eigenvalues, ascending.

    Raises:
        ShapeError: The matrices are not square, or not of f32, f64, c64 or c128.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3,3]")
        >>> lib.factorizations.eigh(x).values
        %get-tuple-element.4: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/self_adjoint_eig.h
    """
    batch, size = square_dimensions("eigh", operand)
    real = operand.shape.element_type.real_component
    values = Shape.array(real, (*batch, size))
    # Options: lower, sorted, the largest number of sweeps, and the tolerance at which to stop.
    options = f"{int(lower)},1,100,1e-6".encode()
    return Eigh(*_called("Eigh", [operand], [operand.shape, values], options))


@checked
def svd(operand: Op, *, full_matrices: bool = False) -> Svd:
    """The singular value decomposition of [..., m, n] matrices.

    Args:
        operand: Matrices in the last two dimensions.
        full_matrices: Whether u is [..., m, m] and vh [..., n, n].

    Returns:
        u, [..., m, k], the singular values, [..., k], and vh, [..., k, n], k being min(m, n).

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[4,3]")
        >>> lib.factorizations.svd(x).values
        %get-tuple-element.4: f32[3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.lax.linalg.svd.html
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
    """The batch dimensions, the rows and the columns of matrices that the factorisations take.

    Args:
        function: The name of the caller, for the error.
        operand: Matrices in the last two dimensions.

    Returns:
        (batch, rows, columns).

    Raises:
        ShapeError: The operand is no array of f32, f64, c64 or c128 matrices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,4,3]")
        >>> lib.factorizations.matrix_dimensions("example", x)
        ((5,), 4, 3)
    """
    if operand.shape.rank < 2 or operand.shape.element_type not in _LAPACK_PREFIX:
        raise ShapeError(f"matrices of f32, f64, c64 or c128 are needed, got {operand.shape}").at(
            function
        )
    *batch, rows, columns = operand.shape.dimensions
    return tuple(batch), rows, columns


@checked
def square_dimensions(function: str, operand: Op) -> tuple[tuple[int, ...], int]:
    """The batch dimensions and the size of square matrices that the factorisations take.

    Args:
        function: The name of the caller, for the error.
        operand: Square matrices in the last two dimensions.

    Returns:
        (batch, size).

    Raises:
        ShapeError: The matrices are not square, or not of f32, f64, c64 or c128.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,3,3]")
        >>> lib.factorizations.square_dimensions("example", x)
        ((5,), 3)
    """
    batch, rows, columns = matrix_dimensions(function, operand)
    if rows != columns:
        raise ShapeError(
            f"the matrices must be square, got {rows} rows and {columns} columns of {operand.shape}"
        ).at(function)
    return batch, rows


@checked
def permutation_sign(pivots: Op, element_type: ElementTypeLike) -> Op:
    """The sign of the permutation that pivots make.

    Args:
        pivots: `Lu.pivots`.
        element_type: The element type of the result.

    Returns:
        1 or -1, without the last dimension.

    Raises:
        ShapeError: The pivots are no s32 array.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3,3]")
        >>> pivots = lib.factorizations.lu_decomposition(x).pivots
        >>> lib.factorizations.permutation_sign(pivots, "f32")
        %convert.17: f32[]
    """
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
