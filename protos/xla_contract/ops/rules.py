"""Rules that the shape inference of many operations shares, each with its one wording."""

import dataclasses
from collections.abc import Callable, Sequence

from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSet:
    """The element types an operation takes, and how a message calls them."""

    text: str
    members: frozenset[ElementType]


def _types(text: str, holds: Callable[[ElementType], bool]) -> TypeSet:
    return TypeSet(text, frozenset(t for t in ElementType if t.is_array and holds(t)))


ANY = _types("any", lambda t: True)
NUMERIC = _types("integral, floating or complex", lambda t: t is not ElementType.PRED)
REAL = _types("pred, integral or floating", lambda t: not t.is_complex)
REAL_NUMERIC = _types("integral or floating", lambda t: t.is_integer or t.is_floating)
FLOATING = _types("floating", lambda t: t.is_floating)
FLOATING_OR_COMPLEX = _types("floating or complex", lambda t: t.is_floating or t.is_complex)
SIGNED_OR_COMPLEX = _types(
    "signed, floating or complex",
    lambda t: t.is_signed_integer or t.is_floating or t.is_complex,
)
INTEGRAL = _types("integral", lambda t: t.is_integer)
UNSIGNED = _types("unsigned", lambda t: t.is_unsigned_integer)
LOGICAL = _types("pred or integral", lambda t: t.is_integer or t is ElementType.PRED)
COMPONENT = _types("f32 or f64", lambda t: t in (ElementType.F32, ElementType.F64))


def expect_array(shape: Shape, name: str) -> None:
    """Refuse tuples, tokens and opaque values."""
    if not shape.is_array:
        raise ShapeError(f"{name} must be an array, got {shape.without_layout()}")


def expect_type(shape: Shape, allowed: TypeSet, name: str) -> None:
    """Refuse what is not an array of one of the allowed element types."""
    expect_array(shape, name)
    if shape.element_type not in allowed.members:
        raise ShapeError(
            f"the element type of {name} must be {allowed.text}, got {shape.without_layout()}"
        )


def expect_same(first: Shape, second: Shape, names: str) -> None:
    """Refuse two arrays that differ in dimensions or element type."""
    expect_same_dimensions(first, second, names)
    expect_same_type(first, second, names)


def expect_same_dimensions(first: Shape, second: Shape, names: str) -> None:
    """Refuse two arrays that differ in dimensions."""
    if first.dimensions != second.dimensions:
        raise ShapeError(f"{names} must have equal dimensions, got {_both(first, second)}")


def expect_same_type(first: Shape, second: Shape, names: str) -> None:
    """Refuse two arrays that differ in element type."""
    if first.element_type is not second.element_type:
        raise ShapeError(f"{names} must have the same element type, got {_both(first, second)}")


def expect_scalar(shape: Shape, name: str) -> None:
    """Refuse what is not an array of rank 0."""
    if not shape.is_scalar:
        raise ShapeError(f"{name} must be a scalar, got {shape.without_layout()}")


def expect_entries(entries: Sequence[object], shape: Shape, name: str) -> None:
    """Refuse a list that has not one entry for each dimension of `shape`."""
    if len(entries) != shape.rank:
        raise ShapeError(
            f"{name} must have one entry per dimension, got {len(entries)} for "
            f"{shape.without_layout()}"
        )


def expect_dimensions(dimensions: Sequence[int], rank: int, name: str, of: Shape) -> None:
    """Refuse dimension numbers outside [0, rank) and repeated ones."""
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < rank for d in dimensions):
        raise ShapeError(
            f"{name} must be distinct and in [0, {rank}), got {braced(dimensions)} for "
            f"{of.without_layout()}"
        )


def braced(numbers: Sequence[int]) -> str:
    """Numbers as HLO writes lists: `{0,2}`."""
    return "{" + ",".join(map(str, numbers)) + "}"


def any_dynamic(shapes: Sequence[Shape]) -> tuple[bool, ...]:
    """Per dimension, whether it is dynamic in any of these shapes of one rank."""
    return tuple(any(s.is_dynamic(d) for s in shapes) for d in range(shapes[0].rank))


def as_dynamic(first: Shape, second: Shape) -> Shape:
    """The first of two compatible shapes, without layout, dynamic wherever either of them is."""
    if first.is_tuple:
        pairs = zip(first.tuple_shapes, second.tuple_shapes, strict=True)
        return Shape.tuple_of([as_dynamic(mine, theirs) for mine, theirs in pairs])
    if not first.is_array:
        return first
    return first.with_dimensions(first.dimensions, any_dynamic([first, second]))


def _both(first: Shape, second: Shape) -> str:
    return f"{first.without_layout()} and {second.without_layout()}"
