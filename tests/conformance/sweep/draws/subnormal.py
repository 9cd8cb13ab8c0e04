"""Numbers that all platforms read alike: GPUs keep subnormal ones, XLA's CPU backend does not."""

from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance import oracle
from tests.conformance.sweep.draws.bounds import FLUSHED
from xla_contract.types.element_type import ElementType as E


def agreed(array: Any) -> Any:
    """Return an array with zeros for subnormal numbers, where our platform keeps them."""
    array = np.asarray(array)
    kind = E.from_dtype(array.dtype)
    if not oracle.PLATFORM.startswith("cuda") or kind not in FLUSHED:
        return array
    if kind.is_complex:
        found = array.copy()
        found.real, found.imag = agreed(array.real), agreed(array.imag)
        return found
    numbers: Any = ml_dtypes
    with np.errstate(invalid="ignore"):
        is_tiny = np.abs(array) < numbers.finfo(array.dtype).smallest_normal
    return np.where(is_tiny, np.copysign(np.zeros_like(array), array), array)
