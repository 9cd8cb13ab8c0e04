"""Complex numbers while a function of kernels is built: pairs of values, and plain arithmetic.

Semantics: XLA's CPU backend, as the evaluators have it.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_server.codegen.compiler.shared_functions import CalledFunction
from xla_server.codegen.functions.real.trigonometric import sin_and_cos
from xla_server.codegen.functions.values import (
    ElementaryFunction,
    Value,
    bits,
    exact_product,
    fma,
    select,
    sqrt,
    to,
)
from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.memory import COMPUTED, complex_of

PART = {"c64": "f32", "c128": "f64"}
"""The type of the parts of each complex type."""

HUGE = 2.0**1000
"""Bound of numbers of F64 whose sums and magnitudes are finite."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A number by its parts, of one float type."""

    real: Value
    imag: Value

    def __add__(self, other: "Complex") -> "Complex":
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: "Complex") -> "Complex":
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: "Complex") -> "Complex":
        return Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __neg__(self) -> "Complex":
        return Complex(-self.real, -self.imag)

    def plus_one(self) -> "Complex":
        """Return 1 + z."""
        return Complex(self.real + 1, self.imag)

    def one_minus(self) -> "Complex":
        """Return 1 - z."""
        return Complex(1 - self.real, -self.imag)

    def conjugate(self) -> "Complex":
        """Return the complex conjugate."""
        return Complex(self.real, -self.imag)

    def times_i(self) -> "Complex":
        """Return i z."""
        return Complex(-self.imag, self.real)

    def over_i(self) -> "Complex":
        """Return z / i, which is -i z."""
        return Complex(self.imag, -self.real)

    def equals(self, other: "Complex") -> Value:
        """Return whether both parts are equal."""
        return self.real.equals(other.real) & self.imag.equals(other.imag)

    def is_zero(self) -> Value:
        """Return whether both parts are zeros."""
        return self.real.equals(0) & self.imag.equals(0)

    def is_nan(self) -> Value:
        """Return whether a part is NaN."""
        return self.real.differs(self.real) | self.imag.differs(self.imag)

    def is_infinite(self) -> Value:
        """Return whether a part is infinite."""
        return is_infinite(self.real) | is_infinite(self.imag)

    def is_finite(self) -> Value:
        """Return whether both parts are finite."""
        return is_finite(self.real) & is_finite(self.imag)


def is_infinite(x: Value) -> Value:
    """Return whether a float is infinite."""
    return abs(x).equals(math.inf)


def is_finite(x: Value) -> Value:
    """Return whether a float is neither infinite nor NaN."""
    return abs(x) < math.inf


def choose(predicate: Value, on_true: Complex, on_false: Complex) -> Complex:
    """Select one of two numbers; both are computed."""
    return Complex(
        select(predicate, on_true.real, on_false.real),
        select(predicate, on_true.imag, on_false.imag),
    )


def undefined(where: Value, z: Complex) -> Complex:
    """Return the number, or NaN in both parts if the predicate holds."""
    nan = z.real.constant(math.nan)
    return choose(where, Complex(nan, nan), z)


def one(z: Complex) -> Complex:
    """1 with parts of the same type."""
    return Complex(z.real.constant(1), z.real.constant(0))


@dataclasses.dataclass(frozen=True, slots=True)
class _Squares:
    """Bounds between which squares and their rounding errors are exact, and a factor for others."""

    large: float
    small: float
    scale: float


_SQUARES = {
    "f32": _Squares(2.0**60, 2.0**-40, 2.0**100),
    "f64": _Squares(2.0**500, 2.0**-450, 2.0**600),
}


def magnitude(z: Complex) -> Value:
    """Return |z|, correctly rounded except for rare ties; NaN if a part is NaN."""
    if z.real.type == "f32" and not _is_for_gpu(z.real):
        # Parts of F32 are squared in F64, so that the rounding errors are far below F32's
        # precision.
        x, y = to("f64", z.real), to("f64", z.imag)
        return to("f32", sqrt(x * x + y * y))
    x, y = abs(z.real), abs(z.imag)
    x, y = select(y > x, y, x), select(y > x, x, y)
    bounds = _SQUARES[z.real.type]
    large, small, same = x > bounds.large, x < bounds.small, x.constant(1)
    down, up = x.constant(1 / bounds.scale), x.constant(bounds.scale)
    scale = select(large, down, select(small, up, same))
    back = select(large, up, select(small, down, same))
    x, y = x * scale, y * scale
    near = sqrt(fma(x, x, y * y))
    square, rest = exact_product(near, near)
    own, own_rest = exact_product(x, x)
    excess = fma(-y, y, square - own) + rest - own_rest
    better = near - excess / (near + near)
    return select((near > 0) & is_finite(near), better, near) * back


SIN_AND_COS = ElementaryFunction("sin_and_cos_f64", sin_and_cos, 1, "f64", results=2)
SINES = CalledFunction(SIN_AND_COS)
"""The sine and the cosine of an angle, inlined and called: a loop calls what has a branch."""


def sines(angle: Value) -> tuple[Value, Value]:
    """Return the sine and the cosine of an f64.

    A module for a GPU has its triple from the beginning, and holds all functions that it calls.
    """
    b = angle.builder
    function = SIN_AND_COS if _is_for_gpu(angle) else SINES
    pair = function.call(b, [angle.code])
    return angle.made(b.extract_value(pair, 0)), angle.made(b.extract_value(pair, 1))


def _is_for_gpu(x: Value) -> bool:
    """Return whether a value is one of a GPU, many of which do little in F64."""
    return bool(x.builder.module.triple.startswith("nvptx"))


def _is_not_zero(z: Complex) -> Value:
    """Test the bits: subnormal numbers are not zero."""
    return ((bits(z.real) << 1) | (bits(z.imag) << 1)).differs(0)


Body = Callable[..., "Complex | Value"]


def function(operands: Sequence[str], result: str, body: Body) -> Any:
    """Return the kernel function that computes `body`, for these computed types."""

    @instruction_of(COMPUTED[result](*[COMPUTED[name] for name in operands]))
    def generate(builder: Any, *args: Any) -> Any:
        values = [_value(builder, arg, name) for arg, name in zip(args, operands, strict=True)]
        made = body(*values)
        if isinstance(made, Value):
            return made.code
        return complex_of(builder, result, [made.real.code, made.imag.code])

    return generate


def complex_family(*bodies: Body, operands: int = 1) -> dict[str, Any]:
    """Return functions for both types, computed in F64: `exp` or `complex_exp` is exp_c128."""
    names = (f"{body.__name__.removeprefix('complex_')}_c128" for body in bodies)
    made = (function(["c128"] * operands, "c128", body) for body in bodies)
    return dict(zip(names, made, strict=True))


def _value(builder: Any, code: Any, name: str) -> Any:
    part = PART.get(name)
    if part is None:
        return Value(builder, code, name)
    return Complex(*(Value(builder, builder.extract_value(code, n), part) for n in (0, 1)))


def _of_type(name: str) -> dict[str, Any]:
    part = PART[name]
    unary: dict[str, tuple[str, Body]] = {
        "absolute": (part, magnitude),
        "real": (part, lambda z: z.real),
        "imag": (part, lambda z: z.imag),
        "neg": (name, lambda z: -z),
        "to_pred": ("b1", _is_not_zero),
    }
    binary: dict[str, tuple[str, Body]] = {
        "add": (name, lambda x, y: x + y),
        "sub": (name, lambda x, y: x - y),
        "mul": (name, lambda x, y: x * y),
        "maximum": (name, lambda x, y: choose(x.real >= y.real, x, y)),
        "minimum": (name, lambda x, y: choose(x.real <= y.real, x, y)),
        "eq": ("b1", lambda x, y: x.equals(y)),
        "ne": ("b1", lambda x, y: ~x.equals(y)),
    }
    return {
        **{f"{key}_{name}": function([name], kind, f) for key, (kind, f) in unary.items()},
        **{f"{key}_{name}": function([name] * 2, kind, f) for key, (kind, f) in binary.items()},
        f"select_{name}": function(["b1", name, name], name, choose),
        f"complex_{part}": function([part] * 2, name, Complex),
        f"{name}_of_real": function([part], name, lambda x: Complex(x, x.constant(0))),
        f"real_{part}": function([part], part, lambda x: x),
        f"imag_{part}": function([part], part, lambda x: x.constant(0)),
    }


FORMULAS: Mapping[str, Any] = {**_of_type("c64"), **_of_type("c128")}
"""Functions of both complex types, computed in their own precision."""
