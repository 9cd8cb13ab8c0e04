"""The polynomials of elementary functions, and the statements that have their coefficients.

Every polynomial is the minimax one, for the error weighted as its function needs; nothing comes
from another library.
"""

import dataclasses
import math
import re
import textwrap
from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np

from tests.ulps.fits.minimax import DIGITS, Function, remez


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
        return "\n".join(
            [f"{self.name}: Coefficients = {{", *rows, "}  # fmt: skip", f'"""{told}"""', ""]
        )


def _filled(numbers: Iterable[float]) -> str:
    words = " ".join(f"{number!r}," for number in numbers)
    return textwrap.fill(words, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)


def statement_of(name: str, text: str) -> str:
    """Return the statement of a polynomial's coefficients in the text of a module, or nothing."""
    found = re.search(rf'^{name}: Coefficients = .*?^""".*?"""\n', text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def series(first: Decimal, ratio: Callable[[int], Decimal], start: int = 0) -> Decimal:
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


def one(x: Decimal) -> Decimal:
    return Decimal(1)
