"""Cholesky, LU and QR factors and triangular systems of large matrices, block by block.

LAPACK's and BLAS's own routines process the blocks. The cancellation flag at `cancelled` is polled
between blocks; once it is set the matrix is not changed any more. Matrices are stored column by
column, as LAPACK has them; their addresses and sizes are int64.
"""

from collections.abc import Callable, Mapping
from typing import Any

from numba import njit

from xla_server.codegen.instructions.blas import routine
from xla_server.codegen.instructions.intrinsics import minimum, whole_div
from xla_server.codegen.instructions.lapack import LETTER
from xla_server.codegen.instructions.memory import MEMORY, clear_bytes, watch_i64
from xla_server.codegen.kernel_ir.routine import (
    Cancelled,
    Cost,
    Count,
    Elements,
    Flag,
    Letter,
    Read,
    Routine,
    Update,
    Write,
    routine_of,
)
from xla_server.codegen.kernel_ir.types import Type

BLOCK = 256
"""Columns of a block: enough for products by BLAS to be fast. The last bits of factors depend on
it, and on the two numbers below."""

_LEAST = 128
"""Smallest number of rows or columns of a piece, the work between two polls of the flag."""

PIECE_WORK = {"f32": 1 << 29, "f64": 1 << 28, "c64": 1 << 28, "c128": 1 << 27}
"""Number of products of a piece, which take a core some ten milliseconds."""

_peek, _poke, _to_i32 = MEMORY["peek_i32"], MEMORY["poke_i32"], MEMORY["to_i32"]
_N, _T, _L, _U, _R = map(ord, "NTLUR")


def is_by_blocks(computed: str, order: int, products: int) -> bool:
    """Return whether `products` multiplications take too long for one uncancellable call."""
    return order > 2 * BLOCK and products > 2 * PIECE_WORK[computed]


def _by_value(computed: str, *names: str) -> tuple[Any, ...]:
    """Return routines of a type, named without its letter, that take numbers by value."""
    return tuple(routine(LETTER[computed] + name, by_value=True) for name in names)


def _less_product(computed: str) -> Any:
    """c[m,n] -= a[m,k] b[k,n], where the forms of a and b are BLAS's letters."""
    (gemm,) = _by_value(computed, "gemm")
    one, less = map(Type(computed).dtype.type, (1, -1))

    @njit(error_model="numpy")
    def less_product(m, n, k, a, a_ahead, a_form, b, b_ahead, b_form, c, c_ahead):  # type: ignore[no-untyped-def]
        gemm(a_form, b_form, m, n, k, less, a, a_ahead, b, b_ahead, one, c, c_ahead)

    return less_product


def _piece(computed: str) -> Any:
    """Return a function from the work of a row or column to the number of them in a piece."""
    most = PIECE_WORK[computed]

    @njit(error_model="numpy")
    def piece(work):  # type: ignore[no-untyped-def]
        return max(_LEAST, whole_div(most, max(1, work)))

    return piece


def _cholesky(computed: str) -> Any:
    """The factor in the lower or upper triangle of a matrix; the other triangle is unchanged.

    `status` becomes 0, or the order of the first leading minor that is not positive.
    """
    width = Type(computed).byte_size
    kind, is_complex = Type(computed), computed[0] == "c"
    adjoint, one = ord("C" if is_complex else "T"), kind.dtype.type(1)
    added, lost = map(kind.part.dtype.type, (1, -1))
    names = "herk" if is_complex else "syrk", "potrf", "trsm"
    herk, potrf, trsm = _by_value(computed, *names)
    less_product, piece = _less_product(computed), _piece(computed)

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def cholesky(a: Update, n: Count, is_lower: Flag, status: Write, cancelled: Cancelled) -> None:
        triangle = _L if is_lower else _U
        form = _N if is_lower else adjoint
        # Strides from one row of blocks to the next, seen from the triangle, and from column to
        # column.
        down = width if is_lower else n * width
        right = n * width if is_lower else width
        for k in range(0, n, BLOCK):
            size = minimum(BLOCK, n - k)
            corner = a + k * (down + right)
            potrf(triangle, size, corner, n, status)
            failed = _peek(status, 0)
            if failed != 0:
                _poke(status, 0, _to_i32(failed + k))
                return
            first = k + size
            below = corner + size * down
            if is_lower:
                trsm(_R, _L, adjoint, _N, n - first, size, one, corner, n, below, n)
            else:
                trsm(_L, _U, adjoint, _N, size, n - first, one, corner, n, below, n)
            while first < n:
                if watch_i64(cancelled) != 0:
                    return
                count = minimum(piece(BLOCK * (n - first)), n - first)
                own = a + first * (down + right)
                factor = a + first * down + k * right
                herk(triangle, form, count, size, lost, factor, n, added, own, n)
                last = first + count
                own, rest = own + count * down, factor + count * down
                if is_lower:
                    less_product(n - last, count, size, rest, n, _N, factor, n, adjoint, own, n)
                else:
                    less_product(count, n - last, size, factor, n, adjoint, rest, n, _N, own, n)
                first = last

    return cholesky


def _lu(computed: str) -> Any:
    """Overwrite a matrix [m, n] with L and U; row exchanges are counted from 1.

    `status` becomes 0, or the number of the first pivot that is zero.
    """
    width = Type(computed).byte_size
    getrf, laswp, trsm = _by_value(computed, "getrf", "laswp", "trsm")
    less_product, piece = _less_product(computed), _piece(computed)
    one = Type(computed).dtype.type(1)

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def lu(
        a: Update, m: Count, n: Count, pivots: Write, status: Write, cancelled: Cancelled
    ) -> None:
        down = m * width
        failed = 0
        for k in range(0, minimum(m, n), BLOCK):
            size = minimum(BLOCK, minimum(m, n) - k)
            corner = a + k * (width + down)
            own = pivots + 4 * k
            getrf(m - k, size, corner, m, own, status)
            if failed == 0 and _peek(status, 0) != 0:
                failed = _peek(status, 0) + k
            for r in range(size):
                _poke(own, r, _to_i32(_peek(own, r) + k))
            low, high = k + 1, k + size
            if k > 0:
                laswp(k, a, m, low, high, pivots, 1)
            first = high
            while first < n:
                if watch_i64(cancelled) != 0:
                    return
                count = minimum(piece(BLOCK * (m - k)), n - first)
                column = a + first * down
                laswp(count, column, m, low, high, pivots, 1)
                above, below = column + k * width, column + high * width
                trsm(_L, _L, _N, _U, size, count, one, corner, m, above, m)
                left = corner + size * width
                less_product(m - high, count, size, left, m, _N, above, m, _N, below, m)
                first += count
        _poke(status, 0, _to_i32(failed))

    return lu


def _solve(computed: str) -> Any:
    """Solve a number of systems at b in their own memory, with a triangle on one side of them.

    `ahead` is the leading dimension of b in elements. If `goes_on`, unknowns are solved from the
    first to the last, else from the last to the first. `form`, `diagonal` and `triangle`, of what
    is stored, are BLAS's letters.
    """
    width = Type(computed).byte_size
    (trsm,), one = _by_value(computed, "trsm"), Type(computed).dtype.type(1)
    less_product, piece = _less_product(computed), _piece(computed)

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def solve(
        a: Read, b: Update, order: Count, others: Count, ahead: Elements, is_left: Flag,
        goes_on: Flag, triangle: Letter, form: Letter, diagonal: Letter, cancelled: Cancelled,
    ) -> None:  # fmt: skip
        # Strides from one unknown to the next, and from one system to the next.
        step = width if is_left else ahead * width
        apart = ahead * width if is_left else width
        blocks = -(-order // BLOCK)
        for iteration in range(blocks):
            k = (iteration if goes_on else blocks - 1 - iteration) * BLOCK
            size = minimum(BLOCK, order - k)
            low = k + size if goes_on else 0
            rest = order - low if goes_on else k
            corner = a + k * (1 + order) * width
            # Eliminate the block's unknowns from the other equations.
            is_column = (form == _N) == is_left
            factors = a + (low + k * order if is_column else k + low * order) * width
            first = 0
            while first < others:
                if watch_i64(cancelled) != 0:
                    return
                count = minimum(piece(BLOCK * (rest + BLOCK)), others - first)
                own, after = b + k * step + first * apart, b + low * step + first * apart
                if is_left:
                    trsm(_L, triangle, form, diagonal, size, count, one, corner, order, own, ahead)
                    less_product(
                        rest, count, size, factors, order, form, own, ahead, _N, after, ahead
                    )
                else:
                    trsm(_R, triangle, form, diagonal, count, size, one, corner, order, own, ahead)
                    less_product(
                        count, rest, size, own, ahead, _N, factors, order, form, after, ahead
                    )
                first += count

    return solve


def _qr(computed: str) -> Any:
    """Overwrite a matrix [m, n] with R and the reflectors; their factors are a second result."""
    width = Type(computed).byte_size
    is_complex = computed[0] == "c"
    geqrf, ormqr = _by_value(computed, "geqrf", "unmqr" if is_complex else "ormqr")
    adjoint = ord("C" if is_complex else "T")
    piece = _piece(computed)

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def qr(
        a: Update, m: Count, n: Count, factors: Write, work: Write, work_size: Elements,
        status: Write, cancelled: Cancelled,
    ) -> None:  # fmt: skip
        down = m * width
        for k in range(0, minimum(m, n), BLOCK):
            size = minimum(BLOCK, minimum(m, n) - k)
            corner, own = a + k * (width + down), factors + k * width
            geqrf(m - k, size, corner, m, own, work, work_size, status)
            first = k + size
            while first < n:
                if watch_i64(cancelled) != 0:
                    return
                count = minimum(piece(2 * BLOCK * (m - k)), n - first)
                ormqr(
                    _L, adjoint, m - k, count, size, corner, m, own, a + first * down + k * width,
                    m, work, work_size, status,
                )  # fmt: skip
                first += count

    return qr


def _reflected(computed: str) -> Any:
    """Overwrite reflectors [m, n] with the first n columns of their product."""
    width = Type(computed).byte_size
    names = ("ungqr", "unmqr") if computed[0] == "c" else ("orgqr", "ormqr")
    orgqr, ormqr = _by_value(computed, *names)
    piece = _piece(computed)

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def reflected(
        a: Update, m: Count, n: Count, count: Count, factors: Read, work: Write,
        work_size: Elements, status: Write, cancelled: Cancelled,
    ) -> None:  # fmt: skip
        down = m * width
        last = (count - 1) // BLOCK * BLOCK
        for back in range(0, last + 1, BLOCK):
            k = last - back
            size = minimum(BLOCK, count - k)
            corner, own = a + k * (width + down), factors + k * width
            # The last reflectors begin the columns behind their own as well.
            first = n if back == 0 else k + size
            columns = n - k if back == 0 else size
            while first < n:
                if watch_i64(cancelled) != 0:
                    return
                some = minimum(piece(2 * BLOCK * (m - k)), n - first)
                column = a + first * down + k * width
                for c in range(some):
                    clear_bytes(column + c * down, size * width)
                ormqr(
                    _L, _N, m - k, some, size, corner, m, own, column, m, work, work_size, status
                )  # fmt: skip
                first += some
            if watch_i64(cancelled) != 0:
                return
            orgqr(m - k, columns, size, corner, m, own, work, work_size, status)

    return reflected


_FUNCTIONS: Mapping[str, tuple[Callable[[str], Any], Cost]] = {
    "cholesky": (_cholesky, lambda n: n["n"] ** 3),
    "lu": (_lu, lambda n: n["m"] * n["n"] * min(n["m"], n["n"])),
    "qr": (_qr, lambda n: 2 * n["m"] * n["n"] * min(n["m"], n["n"])),
    "reflected": (_reflected, lambda n: 2 * n["m"] * n["n"] * n["count"]),
    "solve": (_solve, lambda n: n["order"] ** 2 * n["others"]),
}
MATRIX_BLOCKS: dict[str, Any] = {
    f"{name}_{computed}": function(computed)
    for name, (function, _) in _FUNCTIONS.items()
    for computed in LETTER
}
"""The functions for each type by their names in kernels."""


def matrix_routine(name: str, computed: str) -> Routine:
    """Return the routine of a factorization or solution by blocks, for a type."""
    kernel_name = f"{name}_{computed}"
    return routine_of(kernel_name, MATRIX_BLOCKS[kernel_name], _FUNCTIONS[name][1])
