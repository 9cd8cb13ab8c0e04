"""Python and numpy scalars as constants of a known element type."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType

Scalar: TypeAlias = bool | int | float | complex | np.generic
"""Numbers that may be an operand of an operator beside an Op."""

SCALAR_TYPES = (bool, int, float, complex, np.generic)


def scalar_array(value: Scalar, element_type: ElementType) -> NDArray[np.generic]:
    """The value as an array of rank 0 of an element type.

    Rounding to the nearest value of a floating type is allowed, anything else is not.

    Args:
        value: A number.
        element_type: The element type.

    Returns:
        The array.

    Raises:
        InvalidArgumentError: The value is a fraction or an overflow in an integer type, a complex
            number in a real type, a bool anywhere but in PRED (and the reverse), or an integer that
            no float64 holds.
    """
    kind = _kind(value)
    fits = {
        "bool": element_type is ElementType.PRED,
        "int": element_type is not ElementType.PRED,
        "float": element_type.is_floating or element_type.is_complex,
        "complex": element_type.is_complex,
    }[kind]
    if not fits:
        raise InvalidArgumentError(
            f"a scalar must fit the element type it meets, got {kind} {value!r} for "
            f"{element_type.text}"
        )
    if element_type.is_integer:
        number = int(value.real)
        if not _range(element_type)[0] <= number <= _range(element_type)[1]:
            raise InvalidArgumentError(
                f"a scalar must fit the element type it meets, got {number} for {element_type.text}"
            )
        return np.array(number).astype(element_type.dtype)
    if isinstance(value, int) and not isinstance(value, bool):
        value = _float_of(value, element_type)
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(element_type.dtype)


def _float_of(value: int, element_type: ElementType) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgumentError(
            "a scalar must fit the element type it meets, got an integer of "
            f"{value.bit_length()} bits for {element_type.text}"
        ) from None


def _kind(value: Scalar) -> str:
    if isinstance(value, np.generic):
        found = ElementType.from_dtype(value.dtype)
        if found is ElementType.PRED:
            return "bool"
        if found.is_integer:
            return "int"
        return "complex" if found.is_complex else "float"
    return type(value).__name__


def _range(element_type: ElementType) -> tuple[int, int]:
    bits = element_type.bit_width
    if element_type.is_signed_integer:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1
