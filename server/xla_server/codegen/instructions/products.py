"""Matrix products of kernels, by BLAS."""

from typing import Any

from numba import njit

from xla_server.codegen.instructions.blas import routine
from xla_server.codegen.instructions.lapack import LETTER
from xla_server.codegen.kernel_ir.routine import (
    Count,
    Elements,
    Flag,
    Read,
    Routine,
    Update,
    routine_of,
)
from xla_server.codegen.kernel_ir.types import Type

_PLAIN, _TRANSPOSED = ord("N"), ord("T")


def _product_into(computed: str) -> Any:
    """Return the function that sets a matrix to a product, or adds that to it.

    `ahead` counts elements from one stored row to the next. BLAS is column-major, so it computes
    the transpose of the product, from the transposes of its factors.
    """
    gemm = routine(f"{LETTER[computed]}gemm", by_value=True)
    one, zero = map(Type(computed).dtype.type, (1, 0))

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def product_into(
        a: Read, a_ahead: Elements, a_is_transposed: Flag,
        b: Read, b_ahead: Elements, b_is_transposed: Flag,
        c: Update, c_ahead: Elements, m: Count, n: Count, k: Count, adds: Flag,
    ) -> None:  # fmt: skip
        b_form = _TRANSPOSED if b_is_transposed else _PLAIN
        a_form = _TRANSPOSED if a_is_transposed else _PLAIN
        kept = one if adds else zero
        gemm(b_form, a_form, n, m, k, one, b, b_ahead, a, a_ahead, kept, c, c_ahead)

    return product_into


PRODUCTS: dict[str, Any] = {
    f"product_into_{computed}": _product_into(computed) for computed in LETTER
}
"""Every function of this module by its name in kernels."""


def product_into(computed: str) -> Routine:
    """Return the routine that sets a matrix to a product, or adds that to it."""
    name = f"product_into_{computed}"
    return routine_of(name, PRODUCTS[name], lambda n: n["m"] * n["n"] * n["k"], is_inlined=True)
