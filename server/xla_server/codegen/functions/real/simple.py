"""Functions of a few instructions."""

from xla_server.codegen.functions.values import Value, family, select, with_sign


def sign(x: Value) -> Value:
    """-1, 1, NaN or a zero, each with the sign of x; zero where subnormal numbers are zeros."""
    size = select(abs(x) > 0, x.constant(1), x.constant(0))
    return select(x.differs(x), x, with_sign(size, x))


SIMPLE = family(sign)
"""Every function of this module by its name in kernels."""
