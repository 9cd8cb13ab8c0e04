"""Numbers, sequences of them, flags and text, as callers write them."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError

Dimensions: TypeAlias = int | Sequence[int]
"""Sizes or numbers of dimensions; one int stands for a sequence of one."""


class RunValue:
    """Base of Op: a value that exists only at run time, so that it is no number here."""

    __slots__ = ()


def integers(numbers: int | Iterable[int], parameter: str = "dimensions") -> tuple[int, ...]:
    """Return an int, or each of several, as a tuple of Python ints.

    Raises:
        ArgumentTypeError: The value is neither; the error names the parameter.
    """
    try:
        if isinstance(numbers, Iterable) and not isinstance(numbers, RunValue):
            return tuple(map(operator.index, numbers))
        if not isinstance(numbers, bool):
            alone: Any = numbers
            return (operator.index(alone),)
    except (TypeError, InvalidArgumentError):
        pass
    raise refusal(parameter, "an int or a sequence of ints", numbers)


def integer(parameter: str, value: Any) -> int:
    """Return a Python int; raises ArgumentTypeError for bools, fractions and everything else."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except (TypeError, InvalidArgumentError):
        pass
    raise refusal(parameter, "an int", value)


def real(parameter: str, value: Any) -> float:
    """Return a Python float; raises ArgumentTypeError for what is no real number."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number and not hasattr(type(value), "__float__"):
        raise refusal(parameter, "a number", value)
    if isinstance(value, bool | RunValue):
        raise refusal(parameter, "a number known while the program is written", value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise refusal(parameter, "a number", value) from None


def reals(parameter: str, value: Any) -> tuple[float, ...]:
    """Return a sequence of Python floats; raises ArgumentTypeError for everything else."""
    if isinstance(value, str) or not isinstance(value, Iterable) or isinstance(value, RunValue):
        raise refusal(parameter, "a sequence of numbers", value)
    return tuple(real(parameter, each) for each in value)


def flag(parameter: str, value: Any) -> bool:
    """Return a bool; raises ArgumentTypeError for everything else."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refusal(parameter, "True or False", value)


def flags(parameter: str, value: Any) -> tuple[bool, ...]:
    """Return one bool or a sequence of them as a tuple; raises ArgumentTypeError."""
    if isinstance(value, bool | np.bool_):
        return (bool(value),)
    try:
        return tuple(flag(parameter, each) for each in value)
    except (TypeError, InvalidArgumentError):
        raise refusal(parameter, "a sequence of bools", value) from None


def text(parameter: str, value: Any) -> str:
    """Return the text; raises ArgumentTypeError for everything else."""
    if isinstance(value, str):
        return value
    raise refusal(parameter, "text", value)


def data(parameter: str, value: Any) -> bytes:
    """Return the bytes, of text in UTF-8; raises ArgumentTypeError for everything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            pass
    raise refusal(parameter, "bytes or text", value)


def pairs(parameter: str, value: Any) -> tuple[tuple[int, int], ...]:
    """Return (low, high) per dimension; raises ArgumentTypeError for everything else."""
    try:
        rows = [integers(row, parameter) for row in value if isinstance(row, Iterable)]
        if len(rows) == len(value) and all(len(row) == 2 for row in rows):
            return tuple((low, high) for low, high in rows)
    except (TypeError, InvalidArgumentError):
        pass
    raise refusal(parameter, "a sequence of pairs of ints, one per dimension", value)


def groups(parameter: str, value: Any) -> tuple[tuple[int, ...], ...]:
    """Return groups of ids; raises ArgumentTypeError for everything else."""
    try:
        rows = [integers(row, parameter) for row in value if isinstance(row, Iterable)]
        if len(rows) == len(value) and not isinstance(value, str):
            return tuple(rows)
    except (TypeError, InvalidArgumentError):
        pass
    raise refusal(
        parameter, "a sequence of groups, each a sequence of ids, as [[0, 1], [2, 3]]", value
    )


def refusal(parameter: str, needed: str, value: Any, hint: str = "") -> ArgumentTypeError:
    """Return the error of an argument: the parameter, what it takes, and what it got."""
    return ArgumentTypeError(f"{parameter} must be {needed}, got {described(value)}", hint=hint)


def described(value: Any) -> str:
    """Return the value and its type, in short."""
    try:
        shown = repr(value)
    except Exception:  # A `__repr__` of another library may raise.
        shown = "an object"
    return f"{' '.join(shown.split()):.80} ({type(value).__name__})"
