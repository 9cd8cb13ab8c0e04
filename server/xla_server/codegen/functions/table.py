"""Every function of kernels by its name, from the tables of the modules in this package."""

from typing import Any

from xla_server.codegen.functions.bits import bitwise, conversions, integers, narrow_floats
from xla_server.codegen.functions.complex import (
    complex_exponential,
    complex_inverse,
    complex_logarithm,
    complex_values,
    quotients_and_roots,
)
from xla_server.codegen.functions.real import (
    error_function,
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from xla_server.codegen.instructions.intrinsics import ARITHMETIC

FUNCTIONS: dict[str, Any] = {
    **bitwise.FORMULAS,
    **conversions.FORMULAS,
    **integers.FORMULAS,
    **narrow_floats.FORMULAS,
    **complex_exponential.FORMULAS,
    **complex_inverse.FORMULAS,
    **complex_logarithm.FORMULAS,
    **complex_values.FORMULAS,
    **quotients_and_roots.FORMULAS,
    **error_function.FORMULAS,
    **exponential.FORMULAS,
    **inverse_trigonometric.FORMULAS,
    **logarithm.FORMULAS,
    **power.FORMULAS,
    **remainder.FORMULAS,
    **trigonometric.FORMULAS,
}
"""Functions that kernels may call."""


def instructions(computed: str, *names: str) -> list[Any]:
    """Return the functions on elements of a type; complex types have their own."""
    if computed[0] == "c":
        return [FUNCTIONS[f"{name}_{computed}"] for name in names]
    return [ARITHMETIC[name] for name in names]
