"""Sizes in bytes as people write them: 4GiB, 512MiB, 1.5GB, 1048576."""

import re
from fractions import Fraction
from typing import Any

_POWERS = "KMGT"
_UNITS = {"B": 1} | {
    f"{letter}{infix}B".upper(): base**power
    for power, letter in enumerate(_POWERS, start=1)
    for infix, base in (("", 1000), ("i", 1024))
}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)

RULE = "must be a number of bytes, or one with KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000)"
"""The rule for sizes, in the words of errors and of the documentation."""


def parse_size(value: Any) -> Any:
    """Return the bytes that a text with a unit means; return anything else unchanged.

    A unit may follow a space and may have any case; the number may have a decimal point, and
    fractions of a byte are dropped. Texts of digits alone, and values that are no text, are left to
    pydantic's parser. Raises ValueError for other texts.
    """
    if not isinstance(value, str) or value.strip().lstrip("+-").replace("_", "").isdecimal():
        return value
    found = _PATTERN.fullmatch(value.strip())
    factor = _UNITS.get(found[2].upper()) if found is not None else None
    if found is None or factor is None:
        advice = _advice(found[2] if found is not None else "")
        raise ValueError(f"{RULE}{advice}, got {value!r:.200}")
    return int(Fraction(found[1]) * factor)


def format_size(count: int) -> str:
    """Return a number of bytes in the largest unit of 1024 that divides it."""
    for power in range(len(_POWERS), 0, -1):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{_POWERS[power - 1]}iB"
    return str(count)


def readable_size(count: int) -> str:
    """Return a number of bytes with one decimal, for people to read."""
    for power in range(len(_POWERS), 0, -1):
        if count >= 1024**power:
            return f"{count / 1024**power:.1f} {_POWERS[power - 1]}iB"
    return f"{count} B"


def _advice(unit: str) -> str:
    letter = unit.upper().removesuffix("I")
    if letter and letter in _POWERS:
        return f"; {unit} alone may mean {letter}iB or {letter}B"
    return ""
