"""The remainder of floats, which is exact.

Semantics: C's fmod, which XLA's remainder is; NaN where x is infinite or y is zero.

The quotient is rounded, so that its integer part is the exact one or, next to an integer, one
more, while all of these are floats. The product with the divisor and the difference from x are
rounded once, and are a float: a multiple of the divisor's last digit, at most as large as it.
Other operands are rare, and take the C library's function.
"""

from xla_server.codegen.functions.values import (
    Value,
    family,
    fma,
    select,
    truncated,
    where_rare,
    with_sign,
    with_sign_bit,
)


def rem(x: Value, y: Value) -> Value:
    """Return the remainder of x / y, with the sign of x; subnormal remainders are not flushed."""
    top, bottom, form = abs(x), abs(y), x.format
    quotient = top / bottom
    # The last digit of the divisor is a normal number, so that remainders are, too.
    smallest = 2.0 ** (1 - form.bias + form.fraction)
    is_usual = (quotient < 2.0 ** (form.fraction + 1)) & (bottom >= smallest)
    rest = fma(-truncated(quotient), bottom, top)
    rest = select(rest < 0, rest + bottom, rest)
    found = with_sign(select(top < bottom, top, rest), x)
    (found,) = where_rare(~is_usual, lambda: [library(x, y)], [found])
    return found


def by_power_of_two(x: Value, divisor: float) -> Value:
    """Return the same for a power of two from 1 on, whose quotients are exact: without a branch."""
    rest = fma(-truncated(x / divisor), divisor, x)
    # A remainder of zero is positive so far.
    return select(abs(x) < divisor, x, with_sign_bit(rest, x))


def library(x: Value, y: Value) -> Value:
    """Return the same by the C library, for each lane of a vector by itself."""
    # The library's function knows nothing of the processor's mode for subnormal numbers, and its
    # NaN has the sign of this one: a total order tells them apart.
    product = x * y
    rest = x.made(x.builder.frem(x.code, y.code))
    return select(y.equals(0.0), product / product, rest)


FORMULAS = family(rem, operands=2)
"""Every function of this module by its name in kernels."""
