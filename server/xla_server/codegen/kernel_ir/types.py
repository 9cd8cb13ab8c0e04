"""The types of values in kernels."""

import enum
from typing import Any

import numpy as np


class Type(enum.StrEnum):
    """A scalar type; the text is its name in instructions."""

    B1 = "b1"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F32 = "f32"
    F64 = "f64"
    C64 = "c64"
    C128 = "c128"

    @property
    def byte_size(self) -> int:
        """Bytes of an element in memory."""
        return max(1, int(self[1:]) // 8)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of elements."""
        return np.dtype(f"{self[0]}{self.byte_size}")

    @property
    def part(self) -> "Type":
        """The type of the parts of complex numbers; of others the type itself."""
        return Type(f"f{int(self[1:]) // 2}") if self[0] == "c" else self

    @property
    def is_integer(self) -> bool:
        """Return whether values are integers, of one bit or more."""
        return self[0] in "biu"
