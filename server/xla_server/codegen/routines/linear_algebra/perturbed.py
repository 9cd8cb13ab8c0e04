"""Tridiagonal systems that may be singular, solved by kernels.

Semantics: xla_server.custom_calls.linear_algebra.perturbed_tridiagonal, step by step.
"""

from typing import Any

import numpy as np
from numba import njit

from xla_server.codegen.functions.table import FUNCTIONS, instructions
from xla_server.codegen.instructions.intrinsics import (
    add,
    copysign,
    div,
    ge,
    gt,
    le,
    lt,
    maximum,
    mul,
    ne,
)
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.routine import Count, Read, Routine, Update, Write, routine_of
from xla_server.codegen.kernel_ir.types import Type

_OF_REAL = {"f32": "real_f32", "f64": "real_f64", "c64": "c64_of_real", "c128": "c128_of_real"}


def _division(computed: str) -> Any:
    """Return the function that divides elements, complex ones in double precision."""
    if computed[0] != "c":
        return div
    divide = FUNCTIONS["div_c128"]
    widen, narrow = MEMORY["to_c128"], MEMORY[f"to_{computed}"]

    @njit(error_model="numpy")
    def divided(x, y):  # type: ignore[no-untyped-def]
        return narrow(divide(widen(x), widen(y)))

    return divided


def _eliminated(computed: str) -> Any:
    """Write the three diagonals [n, 3] of U to `upper`; apply the steps to the right side."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    size, minus, times = instructions(computed, "absolute", "sub", "mul")
    over = _division(computed)
    negative, equal, differs = instructions(computed, "neg", "eq", "ne")
    zero, nothing = (kind.dtype.type(0) for kind in (Type(computed).part, Type(computed)))

    @njit(error_model="numpy")
    def eliminated(below, diagonal, above, right, upper, n, count):  # type: ignore[no-untyped-def]
        for row in range(n):
            poke(upper, 3 * row, peek(diagonal, row))
            poke(upper, 3 * row + 1, peek(above, row) if row < n - 1 else nothing)
            poke(upper, 3 * row + 2, nothing)
        scale = add(size(peek(upper, 0)), size(peek(upper, 1)))
        for row in range(n - 1):
            at = 3 * row
            under, pivot = peek(below, row + 1), peek(upper, at)
            next_pivot, after = peek(upper, at + 3), peek(upper, at + 4)
            scale_under = add(size(under), add(size(next_pivot), size(after)))
            weight = div(size(pivot), scale) if differs(pivot, nothing) else zero
            if equal(under, nothing):
                scale = scale_under
            elif le(div(size(under), scale_under), weight):
                scale = scale_under
                factor = over(under, pivot)
                poke(upper, at + 3, minus(next_pivot, times(factor, peek(upper, at + 1))))
                for k in range(row * count, (row + 1) * count):
                    poke(
                        right,
                        k + count,
                        minus(peek(right, k + count), times(factor, peek(right, k))),
                    )
            else:
                factor, beside = over(pivot, under), peek(upper, at + 1)
                poke(upper, at, under)
                poke(upper, at + 1, next_pivot)
                poke(upper, at + 2, after)
                poke(upper, at + 3, minus(beside, times(factor, next_pivot)))
                poke(upper, at + 4, times(negative(factor), after))
                for k in range(row * count, (row + 1) * count):
                    value, other = peek(right, k), peek(right, k + count)
                    poke(right, k, other)
                    poke(right, k + count, minus(value, times(factor, other)))
                scale = add(size(peek(upper, at + 3)), size(peek(upper, at + 4)))

    return eliminated


def _divided(computed: str) -> Any:
    """A row of the right side becomes that of the solution, divided by its perturbed pivot."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    size_of, plus, times = instructions(computed, "absolute", "add", "mul")
    over = _division(computed)
    part, of_real = FUNCTIONS[f"real_{computed}"], FUNCTIONS[_OF_REAL[computed]]
    real: Any = Type(computed).part.dtype.type
    safe = np.finfo(real).smallest_normal
    large, zero, one, two = real(1) / safe, real(0), real(1), real(2)

    @njit(error_model="numpy")
    def divided(pivot, right, count, step):  # type: ignore[no-untyped-def]
        largest = zero
        for k in range(count):
            largest = maximum(largest, size_of(peek(right, k)))
        step = copysign(safe if gt(safe, step) else step, part(pivot))
        factor = one
        while lt(size_of(pivot), one):
            size = size_of(pivot)
            if lt(size, safe) and ne(size, zero) and le(mul(largest, safe), size):
                pivot, factor = times(pivot, of_real(large)), large
                break
            if ge(size, safe) and le(largest, mul(size, large)):
                break
            pivot, step = plus(pivot, of_real(step)), mul(step, two)
        inverse = over(of_real(one), pivot)
        for k in range(count):
            poke(right, k, times(times(peek(right, k), of_real(factor)), inverse))

    return divided


def _perturbed(computed: str) -> Any:
    """The right side [n, count] at `solution` becomes the solution; `upper` has 3 n elements."""
    peek, poke = MEMORY[f"peek_{computed}"], MEMORY[f"poke_{computed}"]
    eliminated, divided = _eliminated(computed), _divided(computed)
    size, minus, times = instructions(computed, "absolute", "sub", "mul")
    width, epsilon = Type(computed).byte_size, np.finfo(Type(computed).part.dtype).eps

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def perturbed(
        below: Read, diagonal: Read, above: Read, solution: Update, upper: Write,
        n: Count, count: Count,
    ) -> None:  # fmt: skip
        eliminated(below, diagonal, above, solution, upper, n, count)
        # LAPACK ignores the row before the last, too.
        largest = maximum(size(peek(diagonal, 0)), size(peek(upper, 3 * n - 3)))
        if n > 1:
            largest = maximum(largest, size(peek(above, 0)))
        for k in range(3 * (n - 2)):
            largest = maximum(largest, size(peek(upper, k)))
        for back in range(n):
            row = n - 1 - back
            for k in range(row * count, (row + 1) * count):
                rest = peek(solution, k)
                if back > 0:
                    rest = minus(rest, times(peek(upper, 3 * row + 1), peek(solution, k + count)))
                if back > 1:
                    rest = minus(
                        rest, times(peek(upper, 3 * row + 2), peek(solution, k + 2 * count))
                    )
                poke(solution, k, rest)
            pivot = peek(upper, 3 * row)
            divided(pivot, solution + row * count * width, count, mul(epsilon, largest))

    return perturbed


PERTURBED: dict[str, Any] = {f"perturbed_{kind}": _perturbed(kind) for kind in _OF_REAL}
"""The function for each type by its name in kernels."""


def perturbed(computed: str) -> Routine:
    """Return the routine for a type."""
    name = f"perturbed_{computed}"
    return routine_of(name, PERTURBED[name], lambda n: 30 * n["n"] * n["count"])
