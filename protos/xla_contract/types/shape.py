"""Shapes: the static type of a value.

Semantics: XLA's "Shapes and layout" and its shape_util. A shape is an array (element type,
dimensions, layout), a tuple of shapes, a token or an opaque value. Shapes are immutable.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, ShapeError
from xla_contract.types.array_arguments import raise_swapped, sizes_of
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.layout import Layout
from xla_contract.types.text_scanner import TextScanner

UNBOUNDED = -(2**63)
"""The size written for a dynamic dimension with no bound."""

MAX_RANK = 32
"""The most dimensions an array may have; numpy 1 holds no more."""

_MAX_BYTES = 2**63 - 1
"""Bytes of the largest array: sizes and offsets are int64."""

MAX_LENGTH = 1 << 20
"""The longest text that is read, in characters."""

MAX_NESTING = 64
"""Deepest nesting of tuples, operands and shardings in a text, as of messages in protobuf's."""

_PARAMETER_NAME = re.compile(r"%?([A-Za-z0-9_][A-Za-z0-9_.\-]*)\s*:")
_LAYOUT = re.compile(r"\s*\{\s*(?:[0-9]+\s*[,}:]|[:}])")


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A shape. Make one with `Shape.array`, `Shape.tuple_of`, `Shape.token` or `Shape.parse`.

    `dynamic_dimensions` is empty (nothing dynamic) or one flag per dimension; a dynamic
    dimension's size is its bound. `layout` None means "not stated": the default layout holds.
    """

    element_type: ElementType
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic_dimensions: tuple[bool, ...] = ()
    tuple_shapes: tuple["Shape", ...] = ()
    _byte_size: int | None = dataclasses.field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.element_type) is not ElementType or type(self.dimensions) is not tuple:
            self._take_what_was_written()
        if self.layout is not None and len(self.layout.minor_to_major) != len(self.dimensions):
            raise InvalidArgumentError(
                f"a layout must order every dimension, got minor_to_major {self.layout} for "
                f"{self.element_type.text}[{','.join(map(str, self.dimensions))}]"
            )
        if self.dynamic_dimensions:
            if len(self.dynamic_dimensions) != len(self.dimensions):
                raise InvalidArgumentError(
                    "is_dynamic_dimension must have one entry per dimension, got "
                    f"{len(self.dynamic_dimensions)} for rank {len(self.dimensions)}"
                )
            if not any(self.dynamic_dimensions):
                object.__setattr__(self, "dynamic_dimensions", ())
        for number, size in enumerate(self.dimensions):
            if size < 0 and not (size == UNBOUNDED and self.is_dynamic(number)):
                raise InvalidArgumentError(
                    f"a dimension size must not be negative, got dimension {number} = {size} of "
                    f"{self.element_type.text}[{','.join(map(str, self.dimensions))}]"
                )
        if self.dimensions:
            self._check_memory()

    def _take_what_was_written(self) -> None:
        """Replace a name of a type by its ElementType, and sizes by a tuple of ints."""
        if isinstance(self.element_type, int | tuple | list) and not isinstance(
            self.element_type, ElementType
        ):
            raise_swapped(self.element_type, self.dimensions)
        try:
            object.__setattr__(self, "element_type", ElementType.of(self.element_type))
        except InvalidArgumentError as error:
            raise type(error)(f"{error.message}; Shape.parse takes text as 'f32[2,3]'") from None
        object.__setattr__(self, "dimensions", sizes_of(self.dimensions))

    def _check_memory(self) -> None:
        if len(self.dimensions) > MAX_RANK:
            raise InvalidArgumentError(
                f"an array may have {MAX_RANK} dimensions, got {len(self.dimensions)} of "
                f"{self.element_type.text}"
            )
        widths: tuple[int, ...] = ()
        if self.layout is not None and self.layout.is_padded:
            widths = self.layout.padded_dimensions
            if any(width < size for width, size in zip(widths, self.dimensions, strict=True)):
                raise InvalidArgumentError(
                    "padded_dimensions must be at least the dimensions, got "
                    f"[{','.join(map(str, widths))}] for {self}"
                )
        # Empty arrays count too: numpy multiplies the other dimensions up before it finds a zero.
        extents = [size for size in widths or self.dimensions if size > 0]
        if math.prod(extents) * self.element_type.byte_width > _MAX_BYTES:
            raise InvalidArgumentError(
                f"the bytes of an array must count to less than 2^63, got {self}"
            )

    @classmethod
    def array(
        cls,
        element_type: ElementTypeLike,
        dimensions: int | Sequence[int] = (),
        minor_to_major: Sequence[int] | None = None,
        dynamic_dimensions: Sequence[bool] = (),
    ) -> "Shape":
        """Return an array shape; without `minor_to_major` it has no layout.

        Args:
            element_type: Anything that `ElementType.of` takes.
            dimensions: Sizes; one int is one dimension.
            minor_to_major: Order of the dimensions in memory, fastest first.
            dynamic_dimensions: True for each size that is a bound; empty if none is.

        Raises:
            InvalidArgumentError: A size is negative, the type has no elements, or `minor_to_major`
                is no permutation.
            ArgumentTypeError: A size is no int.
        """
        if type(element_type) is not ElementType:
            if isinstance(element_type, int | tuple | list):
                raise_swapped(element_type, dimensions)
            element_type = ElementType.of(element_type)
        if not element_type.is_array:
            raise InvalidArgumentError(f"an array needs elements, got type {element_type.text}")
        layout = None if minor_to_major is None else Layout(tuple(map(int, minor_to_major)))
        return cls(
            element_type,
            sizes_of(dimensions),
            layout,
            tuple(bool(flag) for flag in dynamic_dimensions),
        )

    @classmethod
    def scalar(cls, element_type: ElementTypeLike) -> "Shape":
        """An array shape of rank 0."""
        return cls.array(element_type)

    @classmethod
    def tuple_of(cls, shapes: Sequence["Shape"]) -> "Shape":
        """The tuple of these shapes; nests."""
        return cls(ElementType.TUPLE, tuple_shapes=tuple(shapes))

    @classmethod
    def token(cls) -> "Shape":
        """The shape of a value that only orders side effects."""
        return cls(ElementType.TOKEN)

    @classmethod
    def opaque(cls) -> "Shape":
        """The shape of a value only a custom call understands."""
        return cls(ElementType.OPAQUE_TYPE)

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """The shape written in HLO text; raises InvalidArgumentError with the position."""
        if not isinstance(text, str):
            raise ArgumentTypeError(
                f'a shape is parsed from text as "f32[2,3]", got {text!r:.80} '
                f"({type(text).__name__})"
            )
        return parse_shape(text)

    @property
    def is_array(self) -> bool:
        """True if this is an array (scalars included)."""
        return self.element_type.is_array

    @property
    def is_tuple(self) -> bool:
        """True if this is a tuple (the empty tuple included)."""
        return self.element_type is ElementType.TUPLE

    @property
    def is_token(self) -> bool:
        """True if this is a token."""
        return self.element_type is ElementType.TOKEN

    @property
    def is_scalar(self) -> bool:
        """True if this is an array of rank 0."""
        return self.is_array and not self.dimensions

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dimensions)

    @property
    def true_rank(self) -> int:
        """The number of dimensions of a size other than 1."""
        return sum(1 for size in self.dimensions if size != 1)

    @property
    def parts(self) -> tuple["Shape", ...]:
        """The element shapes of a tuple; of any other shape, that shape alone."""
        return self.tuple_shapes if self.is_tuple else (self,)

    def is_dynamic(self, dimension: int) -> bool:
        """Return whether this dimension's size is a bound."""
        return bool(self.dynamic_dimensions) and self.dynamic_dimensions[dimension]

    @property
    def is_static(self) -> bool:
        """True if no dimension in the shape, or in a tuple's parts, is dynamic."""
        return not self.dynamic_dimensions and all(part.is_static for part in self.tuple_shapes)

    def dimension(self, number: int) -> int:
        """Return the size of a dimension; negative numbers count from the end.

        Raises:
            ShapeError: There is no such dimension.
        """
        return self.dimensions[self.dimension_number(number)]

    def dimension_number(self, number: int) -> int:
        """`number` with negative values counted from the end; ShapeError when out of range."""
        if not -self.rank <= number < self.rank:
            raise ShapeError(f"a dimension of rank {self.rank} is needed, got {number} of {self}")
        return number % self.rank

    @property
    def element_count(self) -> int:
        """The number of logical elements of an array (1 for a scalar)."""
        return math.prod(self.dimensions)

    @property
    def byte_size(self) -> int:
        """Bytes of the logical elements; of a tuple, the sum over its elements.

        Tokens and opaque values take none. Padding is counted where the layout has any.
        """
        size = self._byte_size
        if size is None:
            size = self._counted_bytes()
            # Each run of a program asks for those of its arguments and results several times.
            object.__setattr__(self, "_byte_size", size)
        return size

    def _counted_bytes(self) -> int:
        if self.is_tuple:
            return sum(part.byte_size for part in self.tuple_shapes)
        if not self.is_array:
            return 0
        dimensions = self.dimensions
        if self.layout is not None and self.layout.is_padded:
            dimensions = self.layout.padded_dimensions
        return math.prod(dimensions) * self.element_type.byte_width

    @property
    def has_layout(self) -> bool:
        """True if every array in the shape has a layout."""
        if self.is_tuple:
            return all(part.has_layout for part in self.tuple_shapes)
        return not self.is_array or self.layout is not None

    @property
    def layout_or_default(self) -> Layout:
        """The array's layout, the default one if none is stated."""
        return self.layout if self.layout is not None else Layout.descending(self.rank)

    def with_layout(self, layout: Layout | None) -> "Shape":
        """The same array with this layout."""
        return dataclasses.replace(self, layout=layout)

    def with_default_layout(self) -> "Shape":
        """The same shape with row-major layouts wherever none is stated."""
        if self.is_tuple:
            return Shape.tuple_of([part.with_default_layout() for part in self.tuple_shapes])
        if not self.is_array or self.layout is not None:
            return self
        return self.with_layout(Layout.descending(self.rank))

    def without_layout(self) -> "Shape":
        """The same shape with every layout dropped."""
        if self.is_tuple:
            return Shape.tuple_of([part.without_layout() for part in self.tuple_shapes])
        return self if self.layout is None else self.with_layout(None)

    def with_element_type(self, element_type: ElementType) -> "Shape":
        """The same array with another element type, layout kept."""
        return dataclasses.replace(self, element_type=element_type)

    def with_dimensions(
        self, dimensions: Sequence[int], dynamic_dimensions: Sequence[bool] = ()
    ) -> "Shape":
        """An array of the same element type with other dimensions and no layout."""
        return Shape.array(self.element_type, dimensions, None, dynamic_dimensions)

    def compatible(self, other: "Shape") -> bool:
        """Return whether both have the same types and dimensions, ignoring layouts.

        Dynamic and static dimensions of one bound are compatible, as in XLA.
        """
        return self.compatible_ignoring_element_type(other) and all(
            mine.element_type is theirs.element_type
            for mine, theirs in zip(self.leaves(), other.leaves(), strict=True)
        )

    def compatible_ignoring_element_type(self, other: "Shape") -> bool:
        """Return whether structure and dimensions are equal, ignoring element types and layouts."""
        if self.is_tuple or other.is_tuple:
            return (
                self.is_tuple
                and other.is_tuple
                and len(self.tuple_shapes) == len(other.tuple_shapes)
                and all(
                    mine.compatible_ignoring_element_type(theirs)
                    for mine, theirs in zip(self.tuple_shapes, other.tuple_shapes, strict=True)
                )
            )
        return self.is_array == other.is_array and self.dimensions == other.dimensions

    def fits(self, other: "Shape") -> bool:
        """Return whether a value of this shape has shape `other`: compatible, not more dynamic."""
        return self.compatible(other) and all(
            theirs.is_dynamic(number) or not mine.is_dynamic(number)
            for mine, theirs in zip(self.leaves(), other.leaves(), strict=True)
            for number in range(mine.rank)
        )

    def equal(self, other: "Shape") -> bool:
        """Return whether both are equal including layouts; no layout means the default one."""
        if self is other or self == other:
            return True
        return self.with_default_layout() == other.with_default_layout()

    def leaves(self) -> Iterator["Shape"]:
        """The arrays, tokens and opaque values of the shape, depth first."""
        if self.is_tuple:
            for part in self.tuple_shapes:
                yield from part.leaves()
        else:
            yield self

    def __str__(self) -> str:
        """HLO text: `f32[2,<=3]{1,0}`, `(s32[], token[])`; the layout only if it is stated."""
        if self.is_tuple:
            return f"({', '.join(map(str, self.tuple_shapes))})"
        sizes = ",".join(self._size_text(number) for number in range(self.rank))
        layout = "" if self.layout is None else str(self.layout)
        if layout == "{}":
            layout = ""
        return f"{self.element_type.text}[{sizes}]{layout}"

    def __repr__(self) -> str:
        """Return the text, with padded layouts by the number of the array: text has no padding."""
        layouts = {number: leaf.layout for number, leaf in enumerate(self.leaves())}
        padded = {n: layout for n, layout in layouts.items() if layout and layout.is_padded}
        return f"Shape({str(self)!r}{f', {padded}' if padded else ''})"

    def __getitem__(self, number: object) -> NoReturn:
        """Raise ArgumentTypeError: unlike the shapes of numpy and JAX, it is no tuple of sizes."""
        parts = "elements are shape.tuple_shapes" if self.is_tuple else "sizes are shape.dimensions"
        raise ArgumentTypeError(f"a Shape is no sequence, got {self}; its {parts}")

    def _size_text(self, number: int) -> str:
        size = self.dimensions[number]
        if size == UNBOUNDED:
            return "?"
        return f"<={size}" if self.is_dynamic(number) else str(size)


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramShape:
    """The signature of a computation: parameter shapes, their names, and the result shape."""

    parameters: tuple[Shape, ...]
    result: Shape
    parameter_names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """HLO text: `(x: f32[2], y: f32[2]) -> f32[2]`."""
        names = self.parameter_names or tuple(f"p{i}" for i in range(len(self.parameters)))
        inside = ", ".join(f"{n}: {s}" for n, s in zip(names, self.parameters, strict=True))
        return f"({inside}) -> {self.result}"


def parse_shape(text: str) -> Shape:
    """Return the shape written in HLO text; `parse_shape(str(shape)) == shape` except for padding.

    Raises:
        InvalidArgumentError: The text is malformed; the message has the position.
    """
    reader = _whole(text)
    shape = reader.shape(0)
    reader.end()
    return shape


def parse_program_shape(text: str) -> ProgramShape:
    """Return the signature written in HLO text, with names for all parameters or for none.

    Raises:
        InvalidArgumentError: The text is malformed; the message has the position.
    """
    reader = _whole(text)
    program = reader.program_shape()
    reader.end()
    return program


class ShapeReader(TextScanner):
    """A recursive descent over the text of shapes: `f32[2,<=3]{1,0}`, `(s32[], token[])`."""

    def shape(self, depth: int = 0) -> Shape:
        """The shape that begins here, `depth` tuples deep."""
        if depth > MAX_NESTING:
            self.fail(f"at most {MAX_NESTING} nested tuples are")
        if self.peek("b("):
            self.fail("an array, a tuple or a token (values are no buffers) is")
        if not self.skip("("):
            return self._array()
        parts: list[Shape] = []
        if not self.skip(")"):
            parts.append(self.shape(depth + 1))
            while self.skip(","):
                parts.append(self.shape(depth + 1))
            self.expect(")")
        return Shape.tuple_of(parts)

    def program_shape(self) -> ProgramShape:
        """The signature that begins here."""
        parameters: list[Shape] = []
        names: list[str] = []
        self.expect("(")
        if not self.skip(")"):
            self._parameter(parameters, names)
            while self.skip(","):
                self._parameter(parameters, names)
            self.expect(")")
        self.expect("->")
        return ProgramShape(tuple(parameters), self.shape(0), tuple(names))

    def _parameter(self, parameters: list[Shape], names: list[str]) -> None:
        self.space()
        name = _PARAMETER_NAME.match(self.text, self.at)
        if (name is not None) != (len(names) == len(parameters)) and parameters:
            self.fail("a name for every parameter or for none is")
        if name is not None:
            self.at = name.end()
            names.append(name[1])
        parameters.append(self.shape(0))

    def _array(self) -> Shape:
        self.space()
        start = self.at
        element_type = self.element_type()
        dimensions, dynamic = self._dimensions()
        layout = None
        # A brace after a result shape that has anything else inside begins a computation.
        if _LAYOUT.match(self.text, self.at):
            self.expect("{")
            layout = self.layout()
        if not element_type.is_array and (dimensions or layout is not None):
            self.at = start
            self.fail(f"{element_type.text}[] without dimensions is")
        try:
            return Shape(element_type, tuple(dimensions), layout, tuple(dynamic))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at {self.location(start)}") from error

    def _dimensions(self) -> tuple[list[int], list[bool]]:
        dimensions: list[int] = []
        dynamic: list[bool] = []
        self.expect("[")
        if self.skip("]"):
            return dimensions, dynamic
        while True:
            if self.skip("?"):
                dimensions.append(UNBOUNDED)
                dynamic.append(True)
            else:
                dynamic.append(self.skip("<="))
                dimensions.append(self.integer("a dimension size"))
            if not self.skip(","):
                break
        self.expect("]")
        return dimensions, dynamic


def _whole(text: str) -> ShapeReader:
    if len(text) > MAX_LENGTH:
        raise InvalidArgumentError(
            f"a shape may be {MAX_LENGTH} characters of text, got {len(text)}"
        )
    return ShapeReader(text)
