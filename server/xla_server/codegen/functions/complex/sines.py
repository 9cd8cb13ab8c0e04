"""The sine and the cosine of one angle, for functions of complex numbers.

They have a branch around the reduction of large angles, so that a loop over elements calls them.
"""

from xla_server.codegen.functions.real.trigonometric import sin_and_cos
from xla_server.codegen.functions.values import ElementaryFunction, Value
from xla_server.codegen.functions.vector_variants import CalledFunction

SIN_AND_COS = ElementaryFunction("sin_and_cos_f64", sin_and_cos, 1, "f64", results=2)
"""The function, which modules for a GPU hold."""

SINES = CalledFunction(SIN_AND_COS)
"""The same, as kernels of processors call it."""


def sines(angle: Value) -> tuple[Value, Value]:
    """Return the sine and the cosine of an f64.

    A module for a GPU has its triple from the beginning, and holds all functions that it calls.
    """
    b = angle.builder
    is_inlined = b.module.triple.startswith("nvptx")
    pair = (SIN_AND_COS.call if is_inlined else SINES.call)(b, [angle.code])
    sine, cosine = (angle.made(b.extract_value(pair, number)) for number in (0, 1))
    return sine, cosine
