"""The record of an elementwise operation without attributes: what tests expect of it."""

import dataclasses
import keyword
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from xla_contract.types.element_type import ElementType as E

Array = Any


@dataclasses.dataclass(frozen=True, slots=True)
class Ulps:
    """Bounds of the distance to XLA's CPU backend by type, in ULP; 0 is the same bits.

    `small` are the floats of 8 bits and fewer. An ULP is the distance to the next number of the
    type. A complex number has the ULP of its larger part, or of 1 where both are smaller: XLA's
    expansions cancel there.
    """

    small: int = 0
    f16: int = 0
    bf16: int = 0
    f32: int = 0
    f64: int = 0
    c64: int = 0
    c128: int = 0

    def of(self, element_type: E) -> int:
        """The bound of results of this type."""
        if not element_type.is_floating and not element_type.is_complex:
            return 0
        if element_type.is_floating and element_type.bit_width <= 8:
            return self.small
        bound: int = getattr(self, element_type.text)
        return bound


EXACT = Ulps()


class Types(NamedTuple):
    """The element types of operands: how errors name them, and some that are refused."""

    allowed: str
    refused: tuple[str, ...]


ANY = Types("", ())
FLOATING = Types("floating", ("s32", "c64"))
WAVES = Types("floating or complex", ("pred", "u32"))
SIGNED = Types("signed, floating or complex", ("pred", "u32"))
BITS = Types("integral", ("pred", "f32", "c64"))
LOGICAL = Types("pred or integral", ("f32", "c64"))
NUMERIC = Types("integral, floating or complex", ("pred",))
ORDERED = Types("integral or floating", ("pred", "c64"))
COMPONENT = Types("f32 or f64", ("pred", "c64"))


def in_snake_case(name: str) -> str:
    """Return a name of XlaBuilder in the style of Python."""
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One elementwise operation, as tests expect it."""

    builder: str
    """XlaBuilder's name of it."""

    types: Types
    ulps: Ulps = EXACT
    real: Callable[..., Array] | None = dataclasses.field(default=None, kw_only=True)
    """The exact function of floats, which are given in a type with more digits."""

    complex: Callable[..., Array] | None = dataclasses.field(default=None, kw_only=True)
    """The exact function of complex numbers, unless the operation moves or compares parts."""

    bit: Callable[[int, int], int] | None = dataclasses.field(default=None, kw_only=True)
    """The function of numbers of one bit, before the result is cut to one bit; an operation of one
    operand is given a second one."""

    math_h: bool = dataclasses.field(default=False, kw_only=True)
    """XLA has the function in hlo/builder/lib/math.h."""

    @property
    def function(self) -> str:
        """The client's function: XlaBuilder's name in the style of Python."""
        name = in_snake_case(self.builder)
        return f"{name}_" if keyword.iskeyword(name) else name


def both(
    builder: str, types: Types, ulps: Ulps, function: Callable[..., Array], **more: Any
) -> Operation:
    """Return the row of what numpy has for floats and for complex numbers."""
    return Operation(builder, types, ulps, real=function, complex=function, **more)
