"""Matrix products of kernels, by BLAS."""

from typing import Any

from numba import njit

from xla_server.codegen.instructions.blas import routine
from xla_server.codegen.instructions.lapack import LETTER
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type

_PLAIN, _TRANSPOSED = ord("N"), ord("T")


def product_into(computed: str) -> Routine:
    """Return the routine that sets a matrix to a product, or adds that to it.

    `ahead` counts elements from one stored row to the next.
    """
    return Routine(
        f"product_into_{computed}",
        (
            *parameters(Unit.READ, "a"),
            *parameters(Unit.ELEMENTS, "a_ahead"),
            *parameters(Unit.FLAG, "a_is_transposed"),
            *parameters(Unit.READ, "b"),
            *parameters(Unit.ELEMENTS, "b_ahead"),
            *parameters(Unit.FLAG, "b_is_transposed"),
            *parameters(Unit.UPDATE, "c"),
            *parameters(Unit.ELEMENTS, "c_ahead"),
            *parameters(Unit.COUNT, "m", "n", "k"),
            *parameters(Unit.FLAG, "adds"),
        ),
        is_inlined=True,
        cost=lambda n: n["m"] * n["n"] * n["k"],
    )


def _product_into(computed: str) -> Any:
    """Return the function of the routine `product_into`.

    BLAS counts columns first, so it is asked for the transposed product of the transposed.
    """
    gemm = routine(f"{LETTER[computed]}gemm", by_value=True)
    one, zero = map(Type(computed).dtype.type, (1, 0))

    @njit(error_model="numpy")
    def product_into(  # type: ignore[no-untyped-def]
        a, a_ahead, a_is_transposed, b, b_ahead, b_is_transposed, c, c_ahead, m, n, k, adds
    ):
        b_form = _TRANSPOSED if b_is_transposed else _PLAIN
        a_form = _TRANSPOSED if a_is_transposed else _PLAIN
        kept = one if adds else zero
        gemm(b_form, a_form, n, m, k, one, b, b_ahead, a, a_ahead, kept, c, c_ahead)

    return product_into


PRODUCTS: dict[str, Any] = {
    f"product_into_{computed}": _product_into(computed) for computed in LETTER
}
"""Every function of this module by its name in kernels."""
