"""`python -m tests.ulps.polynomials`: write the coefficients of elementary functions.

Every polynomial is the minimax one, for the error weighted as its function needs; nothing comes
from another library.
"""

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np

import xla_server
from tests.command_line import command_line
from tests.ulps.minimax import DIGITS, Function, remez

PATH = Path(xla_server.__file__).parent / "codegen/functions/real/coefficients.py"


@dataclasses.dataclass(frozen=True)
class Fit:
    """A polynomial in x over [low, high] near `function`, its error times `weight` even.

    `terms` are the numbers of coefficients for f32 and f64; no polynomial where it is zero.
    With a `divisor` of that many terms it is a ratio, and both its polynomials are times `scale`.
    """

    name: str
    says: str
    function: Function
    weight: Function
    low: float
    high: float | tuple[float, float]
    terms: tuple[int, int]
    divisor: int = 0
    scale: float = 1.0

    def text(self) -> str:
        """Return the table of the coefficients as a statement of Python."""
        rows, achieved = [], []
        for index, name in enumerate(("f32", "f64")):
            if terms := self.terms[index]:
                high = self.high[index] if isinstance(self.high, tuple) else self.high
                problem = self.function, self.weight, self.low, high, terms, self.divisor
                found, error = remez(*problem)
                numbers = (float(number) * self.scale for number in found)
                if name == "f32":
                    numbers = (float(np.float32(number)) for number in numbers)
                achieved.append(f"{name} 2^{math.log2(error):.1f}")
                rows.append(f'    "{name}": (\n{_filled(numbers)}\n    ),')
        told = f"{self.says}\n\nError before rounding: {', '.join(achieved)}.\n"
        return "\n".join([f"{self.name}: Coefficients = {{", *rows, "}", f'"""{told}"""', ""])


def _filled(numbers: Iterable[float]) -> str:
    words = " ".join(f"{number!r}," for number in numbers)
    return textwrap.fill(words, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)


def _series(first: Decimal, ratio: Callable[[int], Decimal], start: int = 0) -> Decimal:
    """The sum of terms, each `ratio(k)` times the one before."""
    total = term = first
    k = start
    while abs(term) > abs(total) * Decimal(10) ** -(DIGITS + 2):
        k += 1
        term = term * ratio(k)
        total += term
        if not term:
            break
    return total


def _exp_tail(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x^2."""
    return _series(Decimal(1) / 2, lambda k: x / (k + 2))


def _exp2_tail(f: Decimal) -> Decimal:
    """(2^f - 1) / f."""
    logarithm = Decimal(2).ln()
    return _series(logarithm, lambda k: f * logarithm / (k + 1))


def _log_tail(z: Decimal) -> Decimal:
    """(2 atanh(s) - 2 s) / s^3, z = s^2."""
    return sum(((2 * z**k if k else Decimal(2)) / (2 * k + 3) for k in range(90)), Decimal(0))


def _tanh_tail(z: Decimal) -> Decimal:
    """(tanh(r) - r) / r^3, z = r^2."""
    if not z:
        return -Decimal(1) / 3
    r = z.sqrt()
    square = (2 * r).exp()
    return ((square - 1) / (square + 1) - r) / (r * z)


def _sinh_tail(z: Decimal) -> Decimal:
    """(sinh(r) - r) / r^3, z = r^2."""
    return _series(Decimal(1) / 6, lambda k: z / ((2 * k + 2) * (2 * k + 3)))


def _sin_tail(z: Decimal) -> Decimal:
    """(sin(r) - r) / r^3, z = r^2."""
    return _series(-Decimal(1) / 6, lambda k: -z / ((2 * k + 2) * (2 * k + 3)))


def _cos_tail(z: Decimal) -> Decimal:
    """(cos(r) - 1 + z / 2) / z^2, z = r^2."""
    return _series(Decimal(1) / 24, lambda k: -z / ((2 * k + 3) * (2 * k + 4)))


def _asin_tail(z: Decimal) -> Decimal:
    """(asin(r) - r) / r^3, z = r^2."""
    return _series(
        Decimal(1) / 6,
        lambda k: z * (2 * k + 1) ** 2 / ((2 * k + 2) * (2 * k + 3)),
    )


def _atan_tail(z: Decimal) -> Decimal:
    """(atan(r) - r) / r^3, z = r^2."""
    return sum((-((-z) ** k if k else Decimal(1)) / (2 * k + 3) for k in range(90)), Decimal(0))


def _atanh_tail(z: Decimal) -> Decimal:
    """(atanh(s) / s - 1 - z / 3) / z^2, z = s^2."""
    return sum(((z**k if k else Decimal(1)) / (2 * k + 5) for k in range(90)), Decimal(0))


def _pi() -> Decimal:
    def inverse_tangent(n: int) -> Decimal:
        return sum(
            (Decimal((-1) ** k) / ((2 * k + 1) * Decimal(n) ** (2 * k + 1)) for k in range(90)),
            Decimal(0),
        )

    return 16 * inverse_tangent(5) - 4 * inverse_tangent(239)


def _erf_ratio(z: Decimal) -> Decimal:
    """erf(r) / r, z = r^2."""
    scale = 2 / _pi().sqrt()
    return scale * (-z).exp() * _series(Decimal(1), lambda k: 2 * z / (2 * k + 1))


def _erfc(a: Decimal) -> Decimal:
    with localcontext(prec=2 * DIGITS):
        return 1 - a * _erf_ratio(a * a)


def _one(x: Decimal) -> Decimal:
    return Decimal(1)


_LOG_HIGH = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)

FITS = (
    Fit(
        "EXP",
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2; error relative to expm1(r).",
        _exp_tail,
        lambda x: abs(x / (1 + x * _exp_tail(x))),
        -0.3467,
        0.3467,
        (5, 11),
    ),
    Fit(
        "TANH",
        "(tanh(r) - r) / r^3 in z = r^2, |r| <= 0.1734 for f32 or 0.5494 for f64; relative.",
        _tanh_tail,
        lambda z: z,
        0.0005,
        (0.0301, 0.3019),
        (3, 11),
    ),
    Fit(
        "EXP2_OF_TANH",
        "(2^f - 1) / f, |f| <= 1 / 2, for tanh; error relative to 1.",
        _exp2_tail,
        abs,
        -0.501,
        0.501,
        (0, 11),
    ),
    Fit(
        "SINH",
        "(sinh(r) - r) / r^3 in z = r^2, |r| <= 1; relative.",
        _sinh_tail,
        lambda z: z,
        0.0,
        1.0,
        (4, 7),
    ),
    Fit(
        "LOG",
        "(2 atanh(s) - 2 s) / s^3 in z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1); relative.",
        _log_tail,
        lambda z: z,
        0.0,
        1.001 * _LOG_HIGH**2,
        (3, 7),
    ),
    Fit(
        "SIN",
        "(sin(r) - r) / r^3 in z = r^2, |r| <= pi / 4; relative.",
        _sin_tail,
        lambda z: z,
        0.0,
        0.6170,
        (3, 6),
    ),
    Fit(
        "COS",
        "(cos(r) - 1 + z / 2) / z^2 in z = r^2, |r| <= pi / 4.",
        _cos_tail,
        lambda z: z * z,
        0.0,
        0.6170,
        (3, 6),
    ),
    Fit(
        "ASIN",
        "(asin(r) - r) / r^3 in z = r^2, |r| <= 1 / 2; relative.",
        _asin_tail,
        lambda z: z,
        0.0,
        0.25,
        (6, 12),
    ),
    Fit(
        "ATAN",
        "(atan(r) - r) / r^3 in z = r^2, |r| <= tan(pi / 8); relative.",
        _atan_tail,
        lambda z: z,
        0.0,
        0.1717,
        (5, 11),
    ),
    Fit(
        "ERF_RATIO",
        "4 erf(r) / r - 1 in z = r^2, |r| <= 3.88, dividend and divisor; error relative to erf.",
        lambda z: 4 * _erf_ratio(z) - 1,
        lambda z: 1 / (4 * _erf_ratio(z)),
        0.0,
        3.88**2,
        (6, 0),
        divisor=6,
        scale=1.564,
    ),
    Fit(
        "ERF_NEAR",
        "erf(r) / r - 1 in z = r^2, |r| <= 1; error relative to erf.",
        lambda z: _erf_ratio(z) - 1,
        lambda z: 1 / _erf_ratio(z),
        0.0,
        1.0,
        (0, 12),
    ),
    Fit(
        "ERF_FAR",
        "-ln(erfc(t + 1)), 0 <= t <= 4.95; error relative to erf.",
        lambda t: -_erfc(t + 1).ln(),
        lambda t: _erfc(t + 1),
        0.0,
        4.95,
        (0, 18),
    ),
    Fit(
        "ATANH_OF_POW",
        "(atanh(s) / s - 1 - z / 3) / z^2 in z = s^2 for pow; error relative to 1.",
        _atanh_tail,
        lambda z: z * z,
        0.0,
        1.001 * _LOG_HIGH**2,
        (3, 8),
    ),
)
"""Every polynomial that the functions use."""

HEAD = '''"""Minimax polynomials, constant term first, by `python -m tests.ulps.polynomials`."""

from collections.abc import Mapping

Coefficients = Mapping[str, tuple[float, ...]]
"""Coefficients by element type."""

# Several numbers a line.
# fmt: off

'''


def main() -> None:
    """Write the coefficients."""
    with localcontext(prec=DIGITS + 10):
        PATH.write_text(HEAD + "\n".join(fit.text() for fit in FITS), encoding="utf-8")


if __name__ == "__main__":
    command_line("tests.ulps.polynomials", __doc__).parse_args()
    main()
