"""How far results may be from exact ones, in units in the last place of the exact one."""

from collections.abc import Mapping
from types import MappingProxyType

ULP_BOUND: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        (function, name): bound
        for function, bounds in {
            "acos": (1.0, 1.0),
            "acosh": (1.5, 1.5),
            "asin": (1.0, 1.0),
            "asinh": (1.5, 1.5),
            "atan": (1.0, 1.0),
            "atan2": (1.5, 1.5),
            "atanh": (1.5, 1.5),
            "cbrt": (1.0, 1.0),
            "cos": (1.0, 1.0),
            "cosh": (1.75, 1.75),
            "erf": (1.5, 1.5),
            "exp": (1.25, 1.25),
            "expm1": (1.25, 1.5),
            "log": (1.0, 1.0),
            "log1p": (1.25, 1.25),
            "logistic": (2.5, 2.5),
            "pow": (0.51, 1.5),
            "rsqrt": (1.5, 1.5),
            "sign": (0.0, 0.0),
            "sin": (1.0, 1.0),
            "sinh": (1.75, 1.75),
            "tan": (1.5, 1.5),
            "tanh": (1.5, 1.5),
        }.items()
        for name, bound in zip(("f32", "f64"), bounds, strict=True)
    }
)
"""By function and type. Tests measure them: f32 functions of one operand at every f32 with
CONFORMANCE=full, the others at samples of all exponents. logistic is taken as its definition in
XLA, 1 / (1 + e^-x), so zero where e^-x is infinite."""
