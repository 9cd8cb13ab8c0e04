"""Tridiagonal systems that may be singular, solved by kernels.

Semantics: xla_server.custom_calls.perturbed, step by step.
"""

from typing import Any

import numpy as np
from numba import njit

from xla_server.codegen.instructions.intrinsics import copysign, maximum
from xla_server.codegen.instructions.memory import MEMORY

_REAL: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.float32,
    "c128": np.float64,
}


def _eliminated(computed: str) -> Any:
    """The three diagonals [n, 3] of U, written to `upper`; the right side takes the same steps."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    real = _REAL[computed]
    nothing = np.result_type(real, np.complex64 if computed[0] == "c" else real).type(0)

    @njit(error_model="numpy")
    def eliminated(below, diagonal, above, right, upper, n, count):  # type: ignore[no-untyped-def]
        for row in range(n):
            poke(upper, 3 * row, peek(diagonal, row))
            poke(upper, 3 * row + 1, peek(above, row) if row < n - 1 else nothing)
            poke(upper, 3 * row + 2, nothing)
        scale = abs(peek(upper, 0)) + abs(peek(upper, 1))
        for row in range(n - 1):
            at = 3 * row
            under, pivot = peek(below, row + 1), peek(upper, at)
            next_pivot, after = peek(upper, at + 3), peek(upper, at + 4)
            scale_under = abs(under) + (abs(next_pivot) + abs(after))
            weight = abs(pivot) / scale if pivot != 0 else real(0)
            if under == 0:
                scale = scale_under
            elif abs(under) / scale_under <= weight:
                scale = scale_under
                factor = under / pivot
                poke(upper, at + 3, next_pivot - factor * peek(upper, at + 1))
                for k in range(row * count, (row + 1) * count):
                    poke(right, k + count, peek(right, k + count) - factor * peek(right, k))
            else:
                factor, beside = pivot / under, peek(upper, at + 1)
                poke(upper, at, under)
                poke(upper, at + 1, next_pivot)
                poke(upper, at + 2, after)
                poke(upper, at + 3, beside - factor * next_pivot)
                poke(upper, at + 4, -factor * after)
                for k in range(row * count, (row + 1) * count):
                    value, other = peek(right, k), peek(right, k + count)
                    poke(right, k, other)
                    poke(right, k + count, value - factor * other)
                scale = abs(peek(upper, at + 3)) + abs(peek(upper, at + 4))

    return eliminated


def _divided(computed: str) -> Any:
    """A row of the right side becomes that of the solution, divided by its perturbed pivot."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    real = _REAL[computed]
    safe = np.finfo(real).smallest_normal
    large = real(1) / safe
    one = real(1)

    @njit(error_model="numpy")
    def divided(pivot, right, count, step):  # type: ignore[no-untyped-def]
        largest = real(0)
        for k in range(count):
            largest = maximum(largest, abs(peek(right, k)))
        step = copysign(safe if safe > abs(step) else abs(step), pivot.real)
        factor = one
        while abs(pivot) < one:
            size = abs(pivot)
            if size < safe and size != 0 and largest * safe <= size:
                pivot, factor = pivot * large, large
                break
            if size >= safe and largest <= size * large:
                break
            pivot, step = pivot + step, step * real(2)
        inverse = one / pivot
        for k in range(count):
            poke(right, k, peek(right, k) * factor * inverse)

    return divided


def _perturbed(computed: str) -> Any:
    """The right side [n, count] at `solution` becomes the solution; `upper` has room for 3 n."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    eliminated, divided = _eliminated(computed), _divided(computed)
    width = np.dtype(_REAL[computed]).itemsize * (2 if computed[0] == "c" else 1)
    epsilon = np.finfo(_REAL[computed]).eps

    @njit(error_model="numpy")
    def perturbed(below, diagonal, above, solution, upper, n, count):  # type: ignore[no-untyped-def]
        eliminated(below, diagonal, above, solution, upper, n, count)
        # As in LAPACK, the row before the last does not count.
        largest = maximum(abs(peek(diagonal, 0)), abs(peek(upper, 3 * n - 3)))
        if n > 1:
            largest = maximum(largest, abs(peek(above, 0)))
        for k in range(3 * (n - 2)):
            largest = maximum(largest, abs(peek(upper, k)))
        for back in range(n):
            row = n - 1 - back
            for k in range(row * count, (row + 1) * count):
                rest = peek(solution, k)
                if back > 0:
                    rest -= peek(upper, 3 * row + 1) * peek(solution, k + count)
                if back > 1:
                    rest -= peek(upper, 3 * row + 2) * peek(solution, k + 2 * count)
                poke(solution, k, rest)
            pivot = peek(upper, 3 * row)
            divided(pivot, solution + row * count * width, count, epsilon * largest)

    return perturbed


PERTURBED: dict[str, Any] = {f"perturbed_{computed}": _perturbed(computed) for computed in _REAL}
"""The function for each type by its name in kernels."""
