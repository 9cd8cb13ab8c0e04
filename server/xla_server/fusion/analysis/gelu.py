"""Test whether instructions are gelu in the form with tanh, as JAX writes it.

Source: Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415.
"""

import math
from collections.abc import Set
from typing import Any, Final

import ml_dtypes

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.ir.module import HloInstruction

_HALF, _ONE, _SLOPE, _CUBE = 0.5, 1.0, math.sqrt(2 / math.pi), 0.044715

_ROUNDINGS: Final = 2
"""Tolerance of a constant of the formula, in units of its type's epsilon."""

_NONE: Final = frozenset[HloInstruction]()


def constant_of(i: HloInstruction) -> float | None:
    """Return the value of all elements of an array of floats; None if unknown or not uniform."""
    if i.opcode is Opcode.BROADCAST:
        (i,) = i.operands
    if not is_scalar_constant(i) or not i.shape.element_type.is_floating:
        return None
    return float(i.attributes.literal.value)


def gelu_parts(i: HloInstruction, x: HloInstruction) -> Set[HloInstruction]:
    """Return the instructions between x and i = x / 2 (1 + tanh(0.798 (x + 0.0447 x^3))).

    The set includes the constants. It is empty if `i` has another form.
    """
    if i.opcode is not Opcode.MULTIPLY or not x.shape.element_type.is_floating:
        return _NONE
    match = _Match(x)
    outer = match.factor(match.product(i, _HALF, copies=1))
    if outer is None:
        return _NONE
    tanh = match.term(outer, lambda part: constant_of(part) == _ONE)
    if tanh is None or tanh.opcode is not Opcode.TANH:
        return _NONE
    match.seen.add(tanh)
    inner = match.factor(match.product(tanh.operands[0], _SLOPE, copies=0))
    if inner is None:
        return _NONE
    cube = match.term(inner, lambda part: part is x)
    if cube is None or match.product(cube, _CUBE, copies=3) != []:
        return _NONE
    return match.seen - {i, x}


class _Match:
    """The instructions that were matched to parts of a formula of x."""

    def __init__(self, x: HloInstruction) -> None:
        self.seen: set[HloInstruction] = set()
        self._x = x

    def product(
        self, i: HloInstruction, constant: float, *, copies: int
    ) -> list[HloInstruction] | None:
        """Return a product's factors but for a constant and copies of x; None without those."""
        found, factors, waiting = 1.0, list[HloInstruction](), [i]
        while waiting:
            part = waiting.pop()
            number = constant_of(part)
            if part is self._x or (number is None and part.opcode is not Opcode.MULTIPLY):
                factors.append(part)
                continue
            self.seen.add(part)
            if number is None:
                waiting += part.operands
            else:
                found *= number
        numbers: Any = ml_dtypes
        rounding = _ROUNDINGS * float(numbers.finfo(self._x.shape.element_type.dtype).eps)
        is_found = math.isclose(found, constant, rel_tol=rounding)
        if not is_found or factors.count(self._x) != copies:
            return None
        return [part for part in factors if part is not self._x]

    def factor(self, factors: list[HloInstruction] | None) -> HloInstruction | None:
        """Return the factor, if there is exactly one."""
        return factors[0] if factors is not None and len(factors) == 1 else None

    def term(self, i: HloInstruction, is_other: Any) -> HloInstruction | None:
        """Return the term of a sum whose other term satisfies `is_other`."""
        if i.opcode is not Opcode.ADD:
            return None
        for term, other in (i.operands, i.operands[::-1]):
            if is_other(other):
                self.seen.update((i, other))
                return term
        return None
