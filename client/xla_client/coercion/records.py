"""Dimension numbers, paddings, precisions and choices by name, as callers write them."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from xla_client.coercion.numbers import described, integer, integers, refusal
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.dimension_text import parse_convolution_numbers

ConvolutionNumbers: TypeAlias = ConvolutionDimensionNumbers | str
"""The record, or text as "NHWC,HWIO->NHWC" or "b01f_01io->b01f"."""

DotNumbers: TypeAlias = DotDimensionNumbers | Sequence[Any]
"""The record, or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""

PaddingAmounts: TypeAlias = PaddingConfig | Sequence[Any]
"""The record, or (low, high) or (low, high, interior) per dimension."""

Precision: TypeAlias = int | str | Sequence[int | str] | None
""""default", "high", "highest" or their numbers 0, 1, 2: one for both operands or one for each."""

_PRECISIONS = {"default": 0, "high": 1, "highest": 2}

_Enum = TypeVar("_Enum", bound=enum.Enum)
_Record = TypeVar(
    "_Record",
    DotDimensionNumbers,
    ConvolutionDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)


def convolution_numbers(parameter: str, value: ConvolutionNumbers) -> ConvolutionDimensionNumbers:
    """Return the record of a convolution's dimension numbers.

    Raises:
        ArgumentTypeError: The value is neither record nor text.
        InvalidArgumentError: The text is malformed.
    """
    if isinstance(value, str):
        try:
            return parse_convolution_numbers(value)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{parameter}: {error.message}") from None
    if isinstance(value, ConvolutionDimensionNumbers):
        return _of_integers(parameter, value)
    raise refusal(
        parameter,
        "ConvolutionDimensionNumbers or text as 'b01f_01io->b01f', 'NHWC,HWIO->NHWC'",
        value,
    )


def dot_numbers(parameter: str, value: DotNumbers) -> DotDimensionNumbers:
    """Return the record of a dot's dimension numbers; raises ArgumentTypeError."""
    if isinstance(value, DotDimensionNumbers):
        return _of_integers(parameter, value)
    try:
        (lhs, rhs), (lhs_batch, rhs_batch) = value
        return DotDimensionNumbers(
            integers(lhs), integers(rhs), integers(lhs_batch), integers(rhs_batch)
        )
    except (TypeError, ValueError, InvalidArgumentError):
        raise refusal(
            parameter,
            "DotDimensionNumbers or ((lhs contracting, rhs contracting), (lhs batch, rhs batch))",
            value,
        ) from None


def gather_numbers(parameter: str, value: Any) -> GatherDimensionNumbers:
    """Return the record of a gather's dimension numbers; raises ArgumentTypeError."""
    if isinstance(value, GatherDimensionNumbers):
        return _of_integers(parameter, value)
    raise refusal(parameter, "GatherDimensionNumbers", value)


def scatter_numbers(parameter: str, value: Any) -> ScatterDimensionNumbers:
    """Return the record of a scatter's dimension numbers; raises ArgumentTypeError."""
    if isinstance(value, ScatterDimensionNumbers):
        return _of_integers(parameter, value)
    raise refusal(parameter, "ScatterDimensionNumbers", value)


def padding_config(parameter: str, value: PaddingAmounts) -> PaddingConfig:
    """Return the padding of every dimension; raises ArgumentTypeError."""
    needed = "PaddingConfig or (low, high) or (low, high, interior) per dimension"
    if isinstance(value, PaddingConfig):
        return value
    try:
        rows = [
            row if isinstance(row, PaddingDimension) else PaddingDimension(*integers(row))
            for row in value
        ]
        if all(isinstance(row, PaddingDimension | Sequence) and row != () for row in value):
            return PaddingConfig(tuple(rows))
    except (TypeError, InvalidArgumentError):
        pass
    raise refusal(parameter, needed, value)


def precisions(parameter: str, value: Precision) -> tuple[int, ...]:
    """Return the precision of each operand, nothing for None; raises as `choice`."""
    if value is None:
        return ()
    if isinstance(value, int | str):
        return (_precision(parameter, value),) * 2
    try:
        each = tuple(value)
    except TypeError:
        raise refusal(
            parameter, "'default', 'high', 'highest' or one of them per operand", value
        ) from None
    return tuple(_precision(parameter, one) for one in each)


def choice(kind: type[_Enum], parameter: str, value: Any) -> _Enum:
    """Return the member of an enumeration: itself, by its value, or by its name in any case.

    Raises ArgumentTypeError for values of other types and InvalidArgumentError for other names.
    """
    if isinstance(value, kind):
        return value
    by_name = {member.name.lower(): member for member in kind}
    if isinstance(value, str) and value.lower() in by_name:
        return by_name[value.lower()]
    try:
        return kind(value)
    except (ValueError, TypeError):
        error = InvalidArgumentError if isinstance(value, str | int) else ArgumentTypeError
        names = ", ".join(member.name for member in kind)
        raise error(
            f"{parameter} must be a {kind.__name__}, which are {names}, got {described(value)}"
        ) from None


def _precision(parameter: str, value: int | str) -> int:
    number = _PRECISIONS.get(value.lower(), -1) if isinstance(value, str) else value
    if isinstance(number, int) and 0 <= number <= 2 and not isinstance(number, bool):
        return number
    error = InvalidArgumentError if isinstance(value, str | int) else ArgumentTypeError
    raise error(
        f"{parameter} must be 'default', 'high' or 'highest' (0, 1, 2), for both operands or one "
        f"for each, got {described(value)}"
    )


def _of_integers(parameter: str, record: _Record) -> _Record:
    """The record with ints and tuples of ints; one that has them already is itself."""
    taken: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        name = f"{parameter}.{field.name}"
        if field.type is int:
            taken[field.name] = integer(name, value)
        elif type(value) is not tuple or any(type(number) is not int for number in value):
            taken[field.name] = integers(value, name)
    return dataclasses.replace(record, **taken) if taken else record
