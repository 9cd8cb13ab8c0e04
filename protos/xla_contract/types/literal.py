"""Literals: values on the host, arrays with a layout or tuples of them.

Semantics: XLA's Literal and "Shapes and layout". The value of an array is a numpy array with
logical dimensions; the layout of its shape gives the order and padding of its elements in linear
memory.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.index import memory_dimensions, memory_element_count
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.shape import Shape
from xla_host.aligned import aligned_empty

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Nested: TypeAlias = "Array | tuple[Nested, ...] | None"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal:
    """A value with its shape; every array in the shape has a layout.

    Make one with `from_numpy`, `tuple_of`, `token` or `from_linear_memory`. The array is read
    only. `dynamic_sizes` has, for an array with dynamic dimensions, the size of each dimension
    at run time; the array itself always has the bounds. Two literals are == when shape, layout,
    sizes and bits are the same.
    """

    shape: Shape
    _array: Array | None = None
    elements: tuple["Literal", ...] = ()
    dynamic_sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if type(self.shape) is not Shape:
            raise ArgumentTypeError(
                f"a Literal is made of a value by Literal.from_numpy, got {self.shape!r:.80} "
                f"({type(self.shape).__name__}) for its shape"
            )
        _check_dynamic_sizes(self.shape, self.dynamic_sizes)

    @classmethod
    def from_numpy(cls, value: Any, shape: Shape | None = None, *, copy: bool = True) -> "Literal":
        """Return the literal of an array, or of a tuple of values (nested as deep as wished).

        Args:
            value: Anything that numpy makes an array of; None is a token.
            shape: Types and layouts. Arrays must already have its element type, Python numbers and
                lists are converted to it. An array may be smaller where the shape is dynamic: its
                sizes become the dynamic sizes. Without a shape the type is numpy's and the layout
                the default.
            copy: False to share the array's memory, which must then not change.

        Raises:
            InvalidArgumentError: Value and shape do not fit, or XLA has no such type.
        """
        if value is None and (shape is None or shape.is_token):
            return cls.token()
        if isinstance(value, tuple):
            return cls._from_tuple(value, shape, copy)
        if shape is not None and not shape.is_array:
            raise InvalidArgumentError(
                f"a value must fit its shape, got a {type(value).__name__} for {shape}"
            )
        array = _as_array(value, shape, copy)
        if shape is None:
            return cls(_default_shape(array.dtype, array.shape), array)
        if array.shape != shape.dimensions:
            if not _within(array, shape):
                raise InvalidArgumentError(
                    f"a value must fit its shape, got an array of {list(array.shape)} for {shape}"
                )
            return cls(shape.with_default_layout(), _padded(array, shape), (), array.shape)
        return cls(shape.with_default_layout(), array)

    @classmethod
    def _from_tuple(cls, values: tuple[Any, ...], shape: Shape | None, copy: bool) -> "Literal":
        if shape is None:
            return cls.tuple_of([cls.from_numpy(value, copy=copy) for value in values])
        if not shape.is_tuple or len(shape.tuple_shapes) != len(values):
            raise InvalidArgumentError(
                f"a value must fit its shape, got a tuple of {len(values)} for {shape}"
            )
        parts = zip(values, shape.tuple_shapes, strict=True)
        return cls.tuple_of([cls.from_numpy(value, part, copy=copy) for value, part in parts])

    @classmethod
    def tuple_of(cls, elements: Sequence["Literal"]) -> "Literal":
        """The tuple of these literals."""
        shape = Shape.tuple_of([element.shape for element in elements])
        return cls(shape, elements=tuple(elements))

    @classmethod
    def token(cls) -> "Literal":
        """The value that only orders side effects."""
        return cls(Shape.token())

    @classmethod
    def from_linear_memory(
        cls, shape: Shape, flat: Array, dynamic_sizes: tuple[int, ...] = ()
    ) -> "Literal":
        """Return the array whose linear memory is `flat`, which it shares.

        Args:
            shape: Shape and layout of the array.
            flat: One dimension of the element type's dtype, as long as the memory of the shape. The
                content of its padding is dropped.
            dynamic_sizes: Sizes of the dimensions, where some are dynamic.

        Raises:
            InvalidArgumentError: Type or length of `flat`, or a dynamic size, does not fit.
        """
        count = memory_element_count(shape)
        if flat.dtype != shape.element_type.dtype or flat.shape != (count,):
            raise InvalidArgumentError(
                f"linear memory must hold {count} elements of {shape.element_type.dtype} for "
                f"{shape}, got {list(flat.shape)} of {flat.dtype}"
            )
        shape = shape.with_default_layout()
        layout = shape.layout_or_default
        if layout.is_descending:
            array = flat.reshape(shape.dimensions)
            return cls(shape, _read_only(array), (), dynamic_sizes)
        order = layout.major_to_minor
        widths = memory_dimensions(shape)
        physical = flat.reshape([widths[number] for number in order])
        # The ellipsis makes the answer an array, not a number, where there are no dimensions.
        logical: list[Any] = [slice(shape.dimensions[number]) for number in order]
        inside: Array = physical[(*logical, ...)]
        return cls(shape, _read_only(np.transpose(inside, np.argsort(order))), (), dynamic_sizes)

    @property
    def value(self) -> Array:
        """The logical array, read only; InvalidArgumentError when this is no array."""
        if self._array is None:
            raise InvalidArgumentError(f"only an array has a value, got {self.shape}")
        return self._array

    @property
    def actual(self) -> Array:
        """The part of `value` within the dynamic sizes; all of it where there are none."""
        if not self.dynamic_sizes:
            return self.value
        return self.value[tuple(map(slice, self.dynamic_sizes))]

    def to_numpy(self) -> Nested:
        """The actual array, or a tuple of what its elements give; None for a token."""
        if self.shape.is_tuple:
            return tuple(element.to_numpy() for element in self.elements)
        return self.actual if self.shape.is_array else None

    def relayout(self, shape: Shape) -> "Literal":
        """Return the same value with the layouts of `shape`, the default layout if it has none.

        Raises:
            InvalidArgumentError: Types or dimensions differ.
        """
        if not self.shape.compatible(shape):
            raise InvalidArgumentError(
                "a literal can only be laid out as a compatible shape, got "
                f"{self.shape} and {shape}"
            )
        return self._relayout(shape)

    def _relayout(self, shape: Shape) -> "Literal":
        if self.shape.is_tuple:
            pairs = zip(self.elements, shape.tuple_shapes, strict=True)
            return Literal.tuple_of([element._relayout(part) for element, part in pairs])
        sizes = self.dynamic_sizes if shape.dynamic_dimensions else ()
        return Literal(shape.with_default_layout(), self._array, (), sizes)

    def linear_memory(self) -> Array:
        """Return the elements in memory order, padding filled with the layout's padding value.

        It has one dimension, and is a view if the memory order is the array's own.

        Raises:
            InvalidArgumentError: This is no array.
        """
        layout = self.shape.layout_or_default
        if layout.is_descending:
            return np.ascontiguousarray(self.value).reshape(-1)
        order = layout.major_to_minor
        physical = np.transpose(self.value, order)
        if not layout.is_padded:
            return np.ascontiguousarray(physical).reshape(-1)
        widths = [layout.padded_dimensions[number] for number in order]
        memory = np.full(widths, _padding(self.shape.element_type, layout))
        memory[tuple(slice(size) for size in physical.shape)] = physical
        return memory.reshape(-1)

    def equal(self, other: "Literal") -> bool:
        """Return whether types, dimensions and every bit are equal, ignoring layouts.

        NaNs of the same bits are equal, 0.0 and -0.0 are not.
        """
        return self.shape.compatible(other.shape) and self._same_bits(other)

    def _same_bits(self, other: "Literal") -> bool:
        if self.shape.is_tuple:
            pairs = zip(self.elements, other.elements, strict=True)
            return all(mine._same_bits(theirs) for mine, theirs in pairs)
        if self._array is None or other._array is None:
            return self._array is other._array
        element_type = self.shape.element_type
        return self.dynamic_sizes == other.dynamic_sizes and np.array_equal(
            storage(self._array, element_type), storage(other._array, element_type)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self.shape == other.shape and self._same_bits(other)

    def __hash__(self) -> int:
        return hash(self.shape)

    def __repr__(self) -> str:
        if self._array is None or self._array.size > 16:
            return f"Literal({self.shape})"
        return f"Literal({self.shape}, {self._array.tolist()})"


def storage(array: Array, element_type: ElementType) -> Array:
    """Return the bits of an array of this element type as unsigned integers, C-contiguous.

    Types under a byte keep only their value bits; complex elements give two integers each, in one
    dimension.
    """
    array = np.ascontiguousarray(array)
    if element_type.is_complex:
        array = array.reshape(-1).view(element_type.real_component.dtype)
    bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    if element_type.bit_width < 8:
        return bits & np.uint8((1 << element_type.bit_width) - 1)
    return bits


@functools.lru_cache(maxsize=1024)
def _default_shape(dtype: "np.dtype[Any]", dimensions: tuple[int, ...]) -> Shape:
    return Shape.array(ElementType.from_dtype(dtype), dimensions).with_default_layout()


def _as_array(value: Any, shape: Shape | None, copy: bool) -> Array:
    target = None if shape is None else shape.element_type
    try:
        array = np.array(value) if copy else np.asarray(value)
        # Whatever says its own type keeps it; Python numbers and lists of them become the target.
        if target is not None and not hasattr(value, "dtype"):
            array = _converted(value, array, target)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"a value must convert to an array{'' if shape is None else f' for {shape}'}, "
            f"got {type(value).__name__}: {error}"
        ) from error
    given = ElementType.from_dtype(array.dtype)
    if target is not None and given is not target:
        raise InvalidArgumentError(
            f"a value must fit its shape, got elements of {given.text} for {shape}"
        )
    return _read_only(array.astype(given.dtype, copy=False))


def _converted(value: Any, array: Array, target: ElementType) -> Array:
    """Python's numbers as `target`; the array as it is where the value would change its kind."""
    if array.size and target.is_integer and array.dtype.kind in "fO":
        # numpy makes floats of integers that no type of its own holds together.
        array = np.array(value, dtype=object)
        if not all(isinstance(number, int) for number in array.flat):
            return np.asarray(value)
    elif array.size and _KINDS.index(array.dtype.kind) > _KINDS.index(_kind(target)):
        return array
    if array.size and target.is_integer:
        least, most = _limits(target)
        low, high = int(array.min()), int(array.max())
        if low < least or high > most:
            outside = low if low < least else high
            raise OverflowError(f"{target.text} holds {least} to {most}, got {outside}")
    return array.astype(target.dtype)


_KINDS = "buifcOSUV"
"""numpy's kinds of dtype from the narrowest to the widest, those without numbers last."""


def _kind(element_type: ElementType) -> str:
    if element_type.is_integer:
        return "i"
    return "f" if element_type.is_floating else element_type.dtype.kind


def _limits(element_type: ElementType) -> tuple[Any, Any]:
    """The least and the greatest finite value of a real number type."""
    numbers: Any = ml_dtypes
    of_type = numbers.iinfo if element_type.is_integer else numbers.finfo
    limits = of_type(element_type.dtype)
    return limits.min, limits.max


def _within(array: Array, shape: Shape) -> bool:
    """Return whether the array has the shape's sizes, or at most the bounds of dynamic ones."""
    return array.ndim == shape.rank and all(
        size == bound or (shape.is_dynamic(number) and size < bound)
        for number, (size, bound) in enumerate(zip(array.shape, shape.dimensions, strict=True))
    )


def _padded(array: Array, shape: Shape) -> Array:
    whole = np.zeros(shape.dimensions, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return _read_only(whole)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_dynamic_sizes(shape: Shape, sizes: tuple[int, ...]) -> None:
    if not sizes:
        return
    fits = len(sizes) == shape.rank and all(
        0 <= size <= bound if shape.is_dynamic(number) else size == bound
        for number, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True))
    )
    if not fits:
        raise InvalidArgumentError(
            "dynamic_sizes must have one size per dimension within its bound, got "
            f"[{','.join(map(str, sizes))}] for {shape}"
        )


def _padding(element_type: ElementType, layout: Layout) -> Any:
    kind = layout.padding_value
    dtype = element_type.dtype
    if kind is PaddingValue.ONE_PAD:
        return np.ones((), dtype)[()]
    if kind not in (PaddingValue.LOWEST_PAD, PaddingValue.HIGHEST_PAD):
        return np.zeros((), dtype)[()]
    lowest = kind is PaddingValue.LOWEST_PAD
    if element_type.is_complex:
        raise InvalidArgumentError(
            f"padding must have a value of the element type, got {kind.name} for "
            f"{element_type.text}, which has no order"
        )
    if element_type is ElementType.PRED:
        return np.bool_(not lowest)
    infinity = np.array(-np.inf if lowest else np.inf, np.float32)
    if element_type.is_floating and np.isinf(infinity.astype(dtype)):
        return infinity.astype(dtype)[()]
    least, most = _limits(element_type)
    return np.array(least if lowest else most, dtype)[()]


def with_aligned_elements(literal: Literal) -> Literal:
    """Return the literal with arrays copied whose elements are not aligned to their size.

    Views of received bytes often are not; numpy is slow on them and other libraries refuse them.
    """
    if literal.shape.is_tuple:
        return Literal.tuple_of([with_aligned_elements(part) for part in literal.elements])
    if not literal.shape.is_array or literal.value.flags.aligned:
        return literal
    array = aligned_empty(literal.shape.dimensions, literal.value.dtype)
    np.copyto(array, literal.value)
    array.flags.writeable = False
    return Literal(literal.shape, array, (), literal.dynamic_sizes)
