"""Indices as sums of loop variables times constants, simplified as they are made."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A loop variable from 0 to size - 1; an `unrolled` loop becomes copies of its body."""

    size: int
    name: str
    unrolled: bool = False

    low = 0

    @property
    def high(self) -> int:
        """The largest value."""
        return max(self.size - 1, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Quotient:
    """floor(operand / divisor) of an operand that is never negative."""

    operand: "Affine"
    divisor: int

    @property
    def low(self) -> int:
        """The smallest value."""
        return self.operand.low // self.divisor

    @property
    def high(self) -> int:
        """The largest value."""
        return self.operand.high // self.divisor


@dataclasses.dataclass(frozen=True, slots=True)
class Modulus:
    """operand mod divisor of an operand that is never negative."""

    operand: "Affine"
    divisor: int

    low = 0

    @property
    def high(self) -> int:
        """The largest value."""
        return self.divisor - 1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """An index of which only the bounds are known. `node` is the value that computes it."""

    node: object
    low: int
    high: int


Atom: TypeAlias = Variable | Quotient | Modulus | Computed


@dataclasses.dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum of coefficient * atom; coefficients are never 0 and atoms are distinct."""

    constant: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    @property
    def low(self) -> int:
        """A lower bound."""
        return self.constant + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @property
    def high(self) -> int:
        """An upper bound."""
        return self.constant + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    def __add__(self, other: "Affine | int") -> "Affine":
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        return _sum(self.constant + other.constant, [*self.terms, *other.terms])

    def __mul__(self, factor: int) -> "Affine":
        if factor == 0:
            return ZERO
        return Affine(self.constant * factor, tuple((a, c * factor) for a, c in self.terms))

    def coefficient(self, atom: Atom) -> int:
        """Return the coefficient of an atom, 0 where the index does not have it."""
        return next((factor for each, factor in self.terms if each is atom), 0)

    def at(self, value: int) -> int:
        """Return the index where the only variable in it has a value."""
        total = self.constant
        for atom, factor in self.terms:
            match atom:
                case Quotient(operand=operand, divisor=divisor):
                    part = operand.at(value) // divisor
                case Modulus(operand=operand, divisor=divisor):
                    part = operand.at(value) % divisor
                case _:
                    part = value
            total += factor * part
        return total

    def floordiv(self, divisor: int) -> "Affine":
        """floor(self / divisor) of an index that is never negative."""
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        if rest.low >= 0 and rest.high < divisor:
            return whole
        common = rest.common_factor(divisor)
        part = rest.divided(common)
        return whole + Affine(0, ((Quotient(part, divisor // common), 1),))

    def mod(self, divisor: int) -> "Affine":
        """Self mod divisor of an index that is never negative."""
        if divisor == 1:
            return ZERO
        _, rest = self._split(divisor)
        if rest.low >= 0 and rest.high < divisor:
            return rest
        common = rest.common_factor(divisor)
        part = rest.divided(common)
        return Affine(rest.constant % common, ((Modulus(part, divisor // common), common),))

    def common_factor(self, divisor: int) -> int:
        """Return the greatest common divisor of all coefficients and `divisor`."""
        return math.gcd(divisor, *(c for _, c in self.terms))

    def divided(self, factor: int) -> "Affine":
        """Return floor(self / factor), where all coefficients are multiples of `factor`."""
        return Affine(self.constant // factor, tuple((a, c // factor) for a, c in self.terms))

    def _split(self, divisor: int) -> "tuple[Affine, Affine]":
        """The parts (whole, rest) with self = whole * divisor + rest; rest is not negative."""
        whole = [(a, c // divisor) for a, c in self.terms if c % divisor == 0]
        rest = [(a, c) for a, c in self.terms if c % divisor]
        quotient, remainder = divmod(self.constant, divisor)
        left = _sum(remainder, rest)
        if left.low < 0:
            # Only the whole of it is known not to be negative.
            return ZERO, self
        return _sum(quotient, whole), left

    def atoms(self) -> Iterable[Atom]:
        """The atoms, those inside of quotients and moduli included."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, (Quotient, Modulus)):
                yield from atom.operand.atoms()


ZERO = Affine()


def variable(atom: Atom) -> Affine:
    """Return the index that is one atom, none of which is negative; 0 if it has no other value."""
    if atom.high == 0:
        return ZERO
    return Affine(0, ((atom, 1),))


def _sum(constant: int, terms: Iterable[tuple[Atom, int]]) -> Affine:
    total: dict[Atom, int] = {}
    for atom, coefficient in terms:
        total[atom] = total.get(atom, 0) + coefficient
    joined = _joined(constant, total)
    if joined is not None:
        return joined
    return Affine(constant, tuple((a, c) for a, c in total.items() if c))


def _joined(constant: int, total: dict[Atom, int]) -> Affine | None:
    """The sum with (x // d) * d + x % d written as x, or None if that does not occur."""
    for rest, factor in total.items():
        if factor and isinstance(rest, Modulus):
            whole = Quotient(rest.operand, rest.divisor)
            if total.get(whole, 0) == factor * rest.divisor:
                others = [(a, c) for a, c in total.items() if a is not rest and a != whole]
                inside = rest.operand * factor
                return _sum(constant + inside.constant, [*others, *inside.terms])
    return None


def dense_strides(sizes: Sequence[int], order: Sequence[int] | None = None) -> dict[int, int]:
    """Return the elements from one index of each dimension to the next, from major to minor.

    `order` has the dimensions as they are in memory; all of them, in theirs, where none is given.
    """
    inner: Sequence[int] = range(len(sizes)) if order is None else order
    return {d: math.prod(sizes[each] for each in inner[n + 1 :]) for n, d in enumerate(inner)}


def linear(index: Sequence[Affine], dimensions: Sequence[int]) -> Affine:
    """The row-major number of the element at a multi-index."""
    total, stride = ZERO, 1
    for position, size in zip(reversed(index), reversed(dimensions), strict=True):
        total = total + position * stride
        stride *= size
    return total


def multi_index(number: Affine, dimensions: Sequence[int]) -> tuple[Affine, ...]:
    """The multi-index of the element with a row-major number."""
    index: list[Affine] = []
    for size in reversed(dimensions):
        index.append(number.mod(size) if len(index) + 1 < len(dimensions) else number)
        number = number.floordiv(size)
    return tuple(reversed(index))
