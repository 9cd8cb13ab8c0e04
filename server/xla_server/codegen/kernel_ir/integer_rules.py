"""Rules to simplify instructions on integers, by the names of instructions.

They depend on numbers alone, so that expressions are simplified as they are made.
"""

import operator
from collections.abc import Callable, Mapping, Sequence

FUNCTIONS: Mapping[str, Callable[..., int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul")},
    "minimum": min,
    "maximum": max,
    "whole_div": operator.floordiv,
    "whole_mod": operator.mod,
    "narrow_div": operator.floordiv,
    "narrow_mod": operator.mod,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "select": lambda test, then, other: then if test else other,
}
"""Instruction -> the function that computes it from constant operands."""

KEPT: Mapping[tuple[str, int, int], int] = {
    ("add", 0, 0): 1,
    ("add", 1, 0): 0,
    ("sub", 1, 0): 0,
    ("mul", 0, 1): 1,
    ("mul", 1, 1): 0,
    ("whole_div", 1, 1): 0,
    ("narrow_div", 1, 1): 0,
    ("select", 0, 1): 1,
    ("select", 0, 0): 2,
}
"""(instruction, operand's position, its value) -> position of the operand that is the result."""

ABSORBED: Mapping[tuple[str, int, int], int] = {
    ("mul", 0, 0): 0,
    ("mul", 1, 0): 0,
    ("whole_mod", 1, 1): 0,
    ("narrow_mod", 1, 1): 0,
    ("bit_and", 0, 0): 0,
    ("bit_and", 1, 0): 0,
}
"""(instruction, operand's position, its value) -> the result."""

_DIVISIONS = {"whole_div", "whole_mod", "narrow_div", "narrow_mod"}


def folded(function: str, numbers: Sequence[int | None]) -> int | None:
    """Return the result of an instruction, if it follows from the known operands.

    Divisions of negative numbers and by 0 have no result, nor have numbers beyond i64.
    """
    for position, number in enumerate(numbers):
        if number is not None and (function, position, number) in ABSORBED:
            return ABSORBED[function, position, number]
    operands = [number for number in numbers if number is not None]
    if function not in FUNCTIONS or len(operands) < len(numbers):
        return None
    if function in _DIVISIONS and (operands[0] < 0 or operands[1] <= 0):
        return None
    result = int(FUNCTIONS[function](*operands))
    return result if -(1 << 63) <= result < 1 << 63 else None


def kept(function: str, numbers: Sequence[int | None]) -> int | None:
    """Return the position of the operand that the result equals, if known operands decide that."""
    for position, number in enumerate(numbers):
        if number is not None and (function, position, number) in KEPT:
            return KEPT[function, position, number]
    return None
