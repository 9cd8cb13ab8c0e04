"""Literals in HLO text: `1.5`, `{ {1, 2}, {3, 4} }`, `(-nan, 1)`, tuples of them.

Semantics: XLA's Literal::ToString and its parser. Numbers are written so that reading them gives
every bit back, NaNs included.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal, storage
from xla_contract.types.shape import MAX_NESTING, Shape
from xla_server.ir.text.scanner import HloReader

_NUMBER = re.compile(
    r"-?nan(?:\(0x[0-9a-fA-F]+\))?|-?inf|true|false|"
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NAN = re.compile(r"(-?)nan(?:\(0x([0-9a-fA-F]+)\))?")
_MAX_BRACES = 1 << 16
"""Largest number of empty rows that are printed of an array without elements; more are printed as
{}."""


def print_literal(literal: Literal) -> str:
    """The value in HLO text, without its shape."""
    if literal.shape.is_tuple:
        inside = ", ".join(map(print_literal, literal.elements))
        return f"( {inside} )" if inside else "()"
    if not literal.shape.is_array:
        return ""
    dimensions = literal.shape.dimensions
    if 0 in dimensions:
        return _empty(dimensions)
    texts = _texts(literal.value, literal.shape.element_type)
    for size in reversed(dimensions):
        rows = (texts[first : first + size] for first in range(0, len(texts), size))
        texts = ["{" + ", ".join(row) + "}" for row in rows]
    return texts[0]


def read_literal(reader: HloReader, shape: Shape, depth: int = 0) -> Literal:
    """Read a value of this shape. Raises InvalidArgumentError with the position."""
    if depth > MAX_NESTING:
        reader.fail(f"at most {MAX_NESTING} nested tuples are")
    if shape.is_tuple:
        elements: list[Literal] = []
        reader.expect("(")
        for part in shape.tuple_shapes:
            if elements:
                reader.expect(",")
            elements.append(read_literal(reader, part, depth + 1))
        reader.expect(")")
        return Literal.tuple_of(elements)
    if not shape.is_array:
        return Literal.token()
    reader.space()
    start = reader.at
    items: list[Any] = []
    if shape.element_count or not reader.skip("{}"):
        _read_dense(reader, shape, 0, items)
    array = _array(reader, items, shape.element_type, start)
    return Literal.from_numpy(array.reshape(shape.dimensions), shape.with_default_layout())


def _empty(dimensions: Sequence[int]) -> str:
    """The braces of an array without elements."""
    text = "{}"
    outer = dimensions[: list(dimensions).index(0)]
    if math.prod(outer) > _MAX_BRACES:
        return text
    for size in reversed(outer):
        text = "{" + ", ".join([text] * size) + "}"
    return text


def _texts(array: Array, element_type: ElementType) -> list[str]:
    flat = np.ascontiguousarray(array).reshape(-1)
    if element_type is ElementType.PRED:
        return ["true" if item else "false" for item in flat.tolist()]
    if element_type.is_complex:
        component = element_type.real_component
        parts = _texts(flat.view(component.dtype), component)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return [f"({real}, {imaginary})" for real, imaginary in pairs]
    if not element_type.is_floating:
        return [str(int(item)) for item in flat.tolist()]
    if element_type is ElementType.F64:
        texts = [repr(item).removesuffix(".0") for item in flat.tolist()]
    else:
        texts = [f"{item:.9g}" for item in flat.astype(np.float32).tolist()]
    # XLA reads -0 as an integer, which has no sign of zero.
    texts = ["-0.0" if text == "-0" else text for text in texts]
    # Widening a NaN that signals is what the processor calls invalid.
    with np.errstate(invalid="ignore"):
        nans = np.flatnonzero(np.isnan(flat.astype(np.float64)))
    for index in nans.tolist():
        texts[index] = _nan_text(
            int(storage(flat[index : index + 1], element_type)[0]), element_type
        )
    return texts


_MANTISSA_BITS = {
    ElementType.F64: 52,
    ElementType.F32: 23,
    ElementType.F16: 10,
    ElementType.BF16: 7,
    ElementType.F8E5M2: 2,
    ElementType.F8E4M3: 3,
    ElementType.F8E3M4: 4,
}
"""Mantissa bits of the types that have more than one NaN of each sign."""

_ONE_NAN = (
    ElementType.F8E4M3B11FNUZ,
    ElementType.F8E5M2FNUZ,
    ElementType.F8E4M3FNUZ,
    ElementType.F8E8M0FNU,
)
"""Types that have a single NaN, without a sign."""


def _nan_bits(element_type: ElementType, negative: bool) -> int:
    """Return the bits of a NaN that is written without payload."""
    nan: Any = np.array([np.nan], np.float32).astype(element_type.dtype)
    bits = int(storage(nan, element_type)[0])
    if element_type in _ONE_NAN:
        return bits
    sign = 1 << (element_type.bit_width - 1)
    return bits | sign if negative else bits & ~sign


def _nan_text(bits: int, element_type: ElementType) -> str:
    negative = bits >> (element_type.bit_width - 1) == 1
    sign = "-" if negative and element_type not in _ONE_NAN else ""
    width = _MANTISSA_BITS.get(element_type)
    if width is None or bits == _nan_bits(element_type, negative):
        return f"{sign}nan"
    return f"{sign}nan(0x{bits & ((1 << width) - 1):x})"


def _read_dense(reader: HloReader, shape: Shape, depth: int, items: list[Any]) -> None:
    if depth == shape.rank:
        items.append(_read_element(reader, shape.element_type))
        return
    reader.expect("{")
    if reader.peek("..."):
        reader.fail("every element of a constant (they are left out here) is")
    size = shape.dimensions[depth]
    if (
        depth + 1 == shape.rank
        and not shape.element_type.is_complex
        and _read_row(reader, size, items)
    ):
        return
    for number in range(size):
        if number:
            reader.expect(",")
        _read_dense(reader, shape, depth + 1, items)
    reader.expect("}")


def _read_row(reader: HloReader, size: int, items: list[Any]) -> bool:
    """Read a plain row up to its brace at once; read nothing and return False for others."""
    end = reader.text.find("}", reader.at)
    row = [item.strip() for item in reader.text[reader.at : end].split(",")]
    if end < 0 or len(row) != size or not all(map(_NUMBER.fullmatch, row)):
        return False
    items += row
    reader.at = end + 1
    return True


def _read_element(reader: HloReader, element_type: ElementType) -> Any:
    if not element_type.is_complex or not reader.skip("("):
        value = reader.match(_NUMBER, f"a value of {element_type.text}")[0]
        return (value, "0") if element_type.is_complex else value
    real = reader.match(_NUMBER, "a real part")[0]
    reader.expect(",")
    imaginary = reader.match(_NUMBER, "an imaginary part")[0]
    reader.expect(")")
    return real, imaginary


def _array(reader: HloReader, items: list[Any], element_type: ElementType, start: int) -> Array:
    if element_type.is_complex:
        component = element_type.real_component
        parts = _array(reader, [part for pair in items for part in pair], component, start)
        return parts.view(element_type.dtype)
    if element_type is ElementType.PRED:
        truths = [_truth(reader, item, start) for item in items]
        return np.array(truths, np.bool_)
    if element_type.is_integer:
        return _integers(reader, items, element_type, start)
    return _floats(reader, items, element_type, start)


def _truth(reader: HloReader, item: str, start: int) -> bool:
    """Return what an element of type pred says; a whole number says whether it is not 0."""
    if item in ("true", "false"):
        return item == "true"
    if _WHOLE.fullmatch(item) is None:
        _refuse(reader, item, ElementType.PRED, start)
    return int(item) != 0


def _integers(reader: HloReader, items: list[str], element_type: ElementType, start: int) -> Array:
    for item in items:
        if _WHOLE.fullmatch(item) is None:
            _refuse(reader, item, element_type, start)
    numbers = list(map(int, items))
    numbers_of: Any = ml_dtypes.iinfo
    limits = numbers_of(element_type.dtype)
    # XLA reads numbers into 64 bits: in both types of that width they may have either's sign.
    wide = element_type.bit_width == 64
    low, high = (-(1 << 63), (1 << 64) - 1) if wide else (limits.min, limits.max)
    for number in numbers:
        if not low <= number <= high:
            _refuse(reader, str(number), element_type, start)
    if wide:
        bits = np.array([number % (1 << 64) for number in numbers], np.uint64)
        return bits.view(element_type.dtype)
    return np.array(numbers, np.int64).astype(element_type.dtype)


def _floats(reader: HloReader, items: list[str], element_type: ElementType, start: int) -> Array:
    special = [index for index, item in enumerate(items) if "n" in item or item[0] in "tf"]
    numbers = list(items)
    for index in special:
        if items[index] in ("true", "false"):
            _refuse(reader, items[index], element_type, start)
        numbers[index] = "nan" if "nan" in items[index] else items[index]
    wide = np.array(list(map(float, numbers)), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(element_type.dtype)
        is_wrong = ~np.isfinite(narrow.astype(np.float64))
    is_wrong[special] = False
    wrong = np.flatnonzero(is_wrong)
    if wrong.size:
        _refuse(reader, items[int(wrong[0])], element_type, start)
    for index in special:
        found = _NAN.fullmatch(items[index])
        if found is not None:
            _put_nan(narrow, index, element_type, bool(found[1]), found[2])
    return narrow


def _put_nan(
    array: Array, index: int, element_type: ElementType, negative: bool, payload: str | None
) -> None:
    bits = _nan_bits(element_type, negative)
    width = _MANTISSA_BITS.get(element_type)
    if payload is not None and width is not None:
        mask = (1 << width) - 1
        bits = bits & ~mask | int(payload, 16) & mask
    unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    unsigned[index] = bits


def _refuse(reader: HloReader, item: str, element_type: ElementType, start: int) -> NoReturn:
    reader.refuse(f"the elements must be values of {element_type.text}", repr(item), start)
