"""The element types of XLA (PrimitiveType), with their numpy types and HLO names."""

import enum
import functools
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError


class ElementType(enum.IntEnum):
    """Every value of PrimitiveType, under its number on the wire."""

    INVALID = 0
    PRED = 1
    S8 = 2
    S16 = 3
    S32 = 4
    S64 = 5
    U8 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    F16 = 10
    F32 = 11
    F64 = 12
    TUPLE = 13
    OPAQUE_TYPE = 14
    C64 = 15
    BF16 = 16
    TOKEN = 17
    C128 = 18
    F8E5M2 = 19
    F8E4M3FN = 20
    S4 = 21
    U4 = 22
    F8E4M3B11FNUZ = 23
    F8E5M2FNUZ = 24
    F8E4M3FNUZ = 25
    S2 = 26
    U2 = 27
    F8E4M3 = 28
    F8E3M4 = 29
    S1 = 30
    U1 = 31
    F4E2M1FN = 32
    F8E8M0FNU = 33
    BUFFER = 34
    F6E3M2FN = 35
    F6E2M3FN = 36

    @property
    def text(self) -> str:
        """The name in HLO text: `f32`, `pred`, `opaque`."""
        return _TEXT[self]

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The numpy type of one element; types under a byte take one byte an element.

        Raises:
            InvalidArgumentError: The type has no elements (tuple, token, opaque).
        """
        dtype = _DTYPE.get(self)
        if dtype is None:
            raise InvalidArgumentError(f"an array element type is needed, got {self.text}")
        return dtype

    @property
    def bit_width(self) -> int:
        """Number of bits of information in an element: 4 for S4, but 8 for PRED, as in storage."""
        return _NARROW_BITS.get(self, 8 * self.dtype.itemsize)

    @property
    def byte_width(self) -> int:
        """Bytes an element takes in memory and in a literal; types under a byte take one."""
        return self.dtype.itemsize

    @property
    def is_array(self) -> bool:
        """True if values of this type are array elements."""
        return self in _DTYPE

    @property
    def is_floating(self) -> bool:
        """True if the type is a real floating point type, wide or narrow."""
        return self in _FLOATING

    @property
    def is_complex(self) -> bool:
        """True if the type is C64 or C128."""
        return self in (ElementType.C64, ElementType.C128)

    @property
    def is_signed_integer(self) -> bool:
        """True if the type is S1 .. S64."""
        return self in _SIGNED

    @property
    def is_unsigned_integer(self) -> bool:
        """True if the type is U1 .. U64."""
        return self in _UNSIGNED

    @property
    def is_integer(self) -> bool:
        """True if the type is a signed or unsigned integer; PRED is not."""
        return self in _SIGNED or self in _UNSIGNED

    @property
    def real_component(self) -> "ElementType":
        """The type of the real part: F32 for C64, F64 for C128, else the type itself."""
        return {ElementType.C64: ElementType.F32, ElementType.C128: ElementType.F64}.get(self, self)

    @property
    def complex_of(self) -> "ElementType":
        """The complex type with this component: C64 for F32, C128 for F64.

        Raises:
            InvalidArgumentError: It is another type.
        """
        pair = {ElementType.F32: ElementType.C64, ElementType.F64: ElementType.C128}.get(self)
        if pair is None:
            raise InvalidArgumentError(f"a complex component must be f32 or f64, got {self.text}")
        return pair

    @classmethod
    def from_text(cls, text: str) -> "ElementType":
        """The type with this HLO name; raises InvalidArgumentError when there is none."""
        found = _BY_TEXT.get(text)
        if found is None:
            raise InvalidArgumentError(f"no element type is called {text!r}")
        return found

    @classmethod
    def of(cls, value: "ElementTypeLike") -> "ElementType":
        """Return the type that `value` names.

        Args:
            value: An ElementType, its HLO name ("f32"), numpy's name of the same type ("float32",
                "bfloat16"), a numpy dtype or scalar type, or one of Python's bool, int, float and
                complex, which mean pred, s32, f32 and c64.

        Raises:
            ArgumentTypeError: `value` is nothing of these.
            InvalidArgumentError: No element type of arrays has this name or numpy type.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return _from_name(value)
        if isinstance(value, type) and value in _BY_PYTHON_TYPE:
            return _BY_PYTHON_TYPE[value]
        if isinstance(value, np.dtype):
            return cls.from_dtype(value)
        if isinstance(value, type) and issubclass(value, _SCALAR_TYPES):
            if found := _BY_SCALAR_TYPE.get(value):
                return found
            raise InvalidArgumentError(f"no XLA element type stores numpy's {value.__name__}")
        # The scalar types of JAX, as jnp.float32, are functions with a dtype.
        dtype = getattr(value, "dtype", None)
        if callable(value) and isinstance(dtype, np.dtype):
            return cls.from_dtype(dtype)
        raise ArgumentTypeError(
            'an element type must be an ElementType, its name ("f32", "float32"), or a numpy '
            f"type (np.float32), got {_text_of(value)}"
        )

    @classmethod
    def from_dtype(cls, dtype: "np.typing.DTypeLike") -> "ElementType":
        """The type of a numpy dtype; raises InvalidArgumentError when XLA has none."""
        return _from_dtype(np.dtype(dtype))


ElementTypeLike: TypeAlias = ElementType | str | type[Any] | np.dtype[Any]
"""The types that `ElementType.of` takes: an ElementType, "f32", "float32", `np.float32` ..."""


def _custom(name: str) -> "np.dtype[np.generic]":
    dtype: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
    return dtype


_DTYPE: dict[ElementType, "np.dtype[np.generic]"] = {
    ElementType.PRED: np.dtype(np.bool_),
    ElementType.S8: np.dtype(np.int8),
    ElementType.S16: np.dtype(np.int16),
    ElementType.S32: np.dtype(np.int32),
    ElementType.S64: np.dtype(np.int64),
    ElementType.U8: np.dtype(np.uint8),
    ElementType.U16: np.dtype(np.uint16),
    ElementType.U32: np.dtype(np.uint32),
    ElementType.U64: np.dtype(np.uint64),
    ElementType.F16: np.dtype(np.float16),
    ElementType.F32: np.dtype(np.float32),
    ElementType.F64: np.dtype(np.float64),
    ElementType.C64: np.dtype(np.complex64),
    ElementType.C128: np.dtype(np.complex128),
    ElementType.BF16: _custom("bfloat16"),
    ElementType.F8E5M2: _custom("float8_e5m2"),
    ElementType.F8E4M3FN: _custom("float8_e4m3fn"),
    ElementType.F8E4M3B11FNUZ: _custom("float8_e4m3b11fnuz"),
    ElementType.F8E5M2FNUZ: _custom("float8_e5m2fnuz"),
    ElementType.F8E4M3FNUZ: _custom("float8_e4m3fnuz"),
    ElementType.F8E4M3: _custom("float8_e4m3"),
    ElementType.F8E3M4: _custom("float8_e3m4"),
    ElementType.F8E8M0FNU: _custom("float8_e8m0fnu"),
    ElementType.F6E3M2FN: _custom("float6_e3m2fn"),
    ElementType.F6E2M3FN: _custom("float6_e2m3fn"),
    ElementType.F4E2M1FN: _custom("float4_e2m1fn"),
    ElementType.S4: _custom("int4"),
    ElementType.U4: _custom("uint4"),
    ElementType.S2: _custom("int2"),
    ElementType.U2: _custom("uint2"),
    ElementType.S1: _custom("int1"),
    ElementType.U1: _custom("uint1"),
}

_NARROW_BITS: dict[ElementType, int] = {
    ElementType.F6E3M2FN: 6,
    ElementType.F6E2M3FN: 6,
    ElementType.F4E2M1FN: 4,
    ElementType.S4: 4,
    ElementType.U4: 4,
    ElementType.S2: 2,
    ElementType.U2: 2,
    ElementType.S1: 1,
    ElementType.U1: 1,
}

_TEXT: dict[ElementType, str] = {element: element.name.lower() for element in ElementType} | {
    ElementType.OPAQUE_TYPE: "opaque"
}
_BY_TEXT: dict[str, ElementType] = {text: element for element, text in _TEXT.items()}

_SIGNED = frozenset(
    {
        ElementType.S1,
        ElementType.S2,
        ElementType.S4,
        ElementType.S8,
        ElementType.S16,
        ElementType.S32,
        ElementType.S64,
    }
)
_UNSIGNED = frozenset(
    {
        ElementType.U1,
        ElementType.U2,
        ElementType.U4,
        ElementType.U8,
        ElementType.U16,
        ElementType.U32,
        ElementType.U64,
    }
)
_FLOATING = frozenset(
    element for element in _DTYPE if element.name.startswith("F") or element is ElementType.BF16
)
_BY_DTYPE: dict["np.dtype[np.generic]", ElementType] = {
    dtype: element for element, dtype in _DTYPE.items()
}
_BY_NUMPY_NAME: dict[str, ElementType] = {
    dtype.name: element for dtype, element in _BY_DTYPE.items()
}
_BY_PYTHON_TYPE: dict[type[Any], ElementType] = {
    bool: ElementType.PRED,
    int: ElementType.S32,
    float: ElementType.F32,
    complex: ElementType.C64,
}
_BY_SCALAR_TYPE: dict[type[Any], ElementType] = {
    dtype.type: element for dtype, element in _BY_DTYPE.items()
}
_SCALAR_TYPES: tuple[type[Any], ...] = (np.generic, *_BY_SCALAR_TYPE)
"""Classes of scalars: those of ml_dtypes are not all subclasses of numpy's."""


def _from_name(name: str) -> ElementType:
    found = _BY_TEXT.get(name.lower()) or _BY_NUMPY_NAME.get(name.lower())
    if found is not None and found is not ElementType.INVALID:
        return found
    import difflib  # only for the sentence

    names = [element.text for element in _DTYPE] + list(_BY_NUMPY_NAME)
    near = difflib.get_close_matches(name.lower(), names, 2, 0.5)
    raise InvalidArgumentError(
        f"an element type must have one of XLA's or numpy's names, got {name!r:.80}"
        + (f"; near it are {' and '.join(near)}" if near else "")
    )


def _text_of(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"


@functools.lru_cache(maxsize=128)
def _from_dtype(dtype: "np.dtype[np.generic]") -> ElementType:
    found = _BY_DTYPE.get(dtype.newbyteorder("="))
    if found is None:
        raise InvalidArgumentError(f"no XLA element type stores numpy's {dtype}")
    return found
