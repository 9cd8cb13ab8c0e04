"""Every function of kernels by its name, from the tables of the modules beside."""

from typing import Any

from xla_server.codegen.functions.bits.conversions import CONVERSIONS
from xla_server.codegen.functions.bits.integers import INTEGERS
from xla_server.codegen.functions.bits.narrow_floats import NARROW
from xla_server.codegen.functions.complex.complex_functions import COMPLEX
from xla_server.codegen.functions.complex.complex_values import PLAIN_COMPLEX
from xla_server.codegen.functions.real.error_function import ERROR_FUNCTION
from xla_server.codegen.functions.real.exponential import EXPONENTIAL
from xla_server.codegen.functions.real.inverse_trigonometric import INVERSE_TRIGONOMETRIC
from xla_server.codegen.functions.real.logarithm import LOGARITHM
from xla_server.codegen.functions.real.power import POWER
from xla_server.codegen.functions.real.simple import SIMPLE
from xla_server.codegen.functions.real.trigonometric import TRIGONOMETRIC
from xla_server.codegen.instructions.intrinsics import ARITHMETIC

FUNCTIONS: dict[str, Any] = {
    **COMPLEX,
    **CONVERSIONS,
    **ERROR_FUNCTION,
    **EXPONENTIAL,
    **INTEGERS,
    **INVERSE_TRIGONOMETRIC,
    **LOGARITHM,
    **NARROW,
    **PLAIN_COMPLEX,
    **POWER,
    **SIMPLE,
    **TRIGONOMETRIC,
}
"""Functions that kernels may call."""


def instructions(computed: str, *names: str) -> list[Any]:
    """Return instructions on elements: complex types have functions of their own."""
    if computed[0] == "c":
        return [FUNCTIONS[f"{name}_{computed}"] for name in names]
    return [ARITHMETIC[name] for name in names]
