"""Constants in a kernel's text: floats by their bits, everything by its type."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xla_server.codegen.kernel_ir.types import Type


def _of_bits(kind: Type) -> Callable[..., Any]:
    words, dtype = np.dtype(f"u{kind.part.byte_size}"), kind.dtype
    return lambda *bits: np.array(bits, words).view(dtype)[0]


CONSTANTS: dict[str, Callable[..., Any]] = {
    kind: kind.dtype.type if kind.is_integer else _of_bits(kind) for kind in Type
}
"""Constructors of the constants of each computed type, called when the kernel's text is read."""
