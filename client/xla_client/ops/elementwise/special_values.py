"""Zero, one and the extreme values of element types, as arrays of rank 0."""

from typing import Any

import ml_dtypes
import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array


def number_array(number: int, element_type: ElementType) -> Array:
    """Return zero or one in this type; InvalidArgumentError if the type has no such value."""
    value = np.asarray(number).astype(element_type.dtype)
    if value.astype(np.complex128) != number:
        raise InvalidArgumentError(f"the element type must have {number}, got {element_type.text}")
    return value


def extreme_array(element_type: ElementType, *, sign: int, finite: bool) -> Array:
    """Return the least value (sign -1) or the greatest (1); infinite ones unless `finite`.

    Raises:
        InvalidArgumentError: The type is complex, and so has no order.
    """
    if element_type.is_complex:
        raise InvalidArgumentError(
            f"the least and greatest value need an ordered type, got {element_type.text}"
        )
    dtype = element_type.dtype
    if element_type is ElementType.PRED:
        return np.asarray(sign > 0)
    if element_type.is_integer:
        info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
        return np.asarray(info.max if sign > 0 else info.min).astype(dtype)
    limits = floating_info(element_type)
    value: Array = np.asarray(limits.max if sign > 0 else limits.min, dtype)
    if not finite:
        infinite = np.asarray(sign * np.inf).astype(dtype)
        # Types without infinities turn it into NaN or into their greatest value.
        value = infinite if np.isinf(infinite.astype(np.float64)) else value
    return value


def floating_info(element_type: ElementType) -> Any:
    """Return ml_dtypes' record of a floating type; InvalidArgumentError for other types."""
    if not element_type.is_floating:
        raise InvalidArgumentError(f"a floating type is needed, got {element_type.text}")
    return ml_dtypes.finfo(element_type.dtype)  # type: ignore[no-untyped-call]
