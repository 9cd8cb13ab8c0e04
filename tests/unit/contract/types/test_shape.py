from collections.abc import Callable

import numpy as np
import pytest

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.shape import MAX_RANK, UNBOUNDED, ProgramShape, Shape

F32 = ElementType.F32
PADDED = Layout((0, 1), padded_dimensions=(3, 5))


def test_counts_and_ranks() -> None:
    shape = Shape.array(F32, (2, 1, 3))
    assert (shape.rank, shape.true_rank, shape.element_count) == (3, 2, 6)
    assert shape.dimension(-1) == 3
    assert Shape.scalar(F32).element_count == 1
    assert Shape.array(F32, (4, 0)).element_count == 0
    with pytest.raises(ShapeError, match=r"got 3 of f32\[2,1,3\]"):
        shape.dimension(3)
    with pytest.raises(ShapeError, match="got -4"):
        shape.dimension(-4)


def test_byte_size_counts_padding_and_sums_tuples() -> None:
    padded = Shape.array(F32, (2, 3)).with_layout(PADDED)
    assert padded.byte_size == 3 * 5 * 4
    nested = Shape.tuple_of([padded, Shape.tuple_of([Shape.array(ElementType.S4, (3,))])])
    assert nested.byte_size == 60 + 3
    assert Shape.tuple_of([Shape.token(), Shape.opaque()]).byte_size == 0


def test_compatible_forgets_layouts_and_equal_does_not() -> None:
    row, column = Shape.array(F32, (2, 3), (1, 0)), Shape.array(F32, (2, 3), (0, 1))
    assert row.compatible(column)
    assert not row.equal(column)
    assert row.equal(row.without_layout())
    assert not row.compatible(row.with_element_type(ElementType.S32))
    assert row.compatible_ignoring_element_type(row.with_element_type(ElementType.S32))
    assert not row.compatible(Shape.array(F32, (3, 2)))
    assert not Shape.tuple_of([row]).compatible(Shape.tuple_of([row, row]))
    assert not Shape.tuple_of([]).compatible(Shape.scalar(F32))
    assert not Shape.token().compatible(Shape.opaque())


def test_layouts_are_said_dropped_and_filled_in_throughout() -> None:
    shape = Shape.tuple_of([Shape.array(F32, (2, 3)), Shape.token()])
    assert not shape.has_layout
    full = shape.with_default_layout()
    assert full.has_layout
    assert str(full) == "(f32[2,3]{1,0}, token[])"
    assert full.without_layout() == shape


def test_dynamic_dimensions() -> None:
    shape = Shape.array(F32, (2, 5), None, (False, True))
    assert str(shape) == "f32[2,<=5]"
    assert not Shape.tuple_of([shape]).is_static
    assert shape.compatible(Shape.array(F32, (2, 5)))
    assert Shape.array(F32, (2,), None, (False,)) == Shape.array(F32, (2,))
    assert str(Shape.array(F32, (UNBOUNDED,), None, (True,))) == "f32[?]"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Shape.array(F32, (-1,)), "dimension 0 = -1 of f32"),
        (lambda: Shape.array(F32, (UNBOUNDED,)), "must not be negative"),
        (lambda: Shape.array(F32, (2, 3), (0,)), r"minor_to_major \{0\} for f32\[2,3\]"),
        (lambda: Shape.array(F32, (2, 3), None, (True,)), "got 1 for rank 2"),
        (lambda: Shape.array(ElementType.TUPLE), "type tuple"),
        (lambda: Shape.array(F32, (1,) * (MAX_RANK + 1)), "got 33 of f32"),
        (lambda: Shape.array(F32, (2**61,)), r"less than 2\^63, got f32\[2305843009213693952\]"),
        (lambda: Shape.array(F32, (2**40, 0, 2**40)), r"less than 2\^63"),
        (lambda: Shape.array(F32, (4, 3)).with_layout(PADDED), r"got \[3,5\] for f32\[4,3\]"),
    ],
)
def test_what_no_array_can_have_is_refused(make: object, sentence: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidArgumentError, match=sentence):
        make()


def test_the_largest_array_there_can_be_is_a_shape() -> None:
    assert Shape.array(ElementType.U8, (2**63 - 1,)).byte_size == 2**63 - 1


def test_program_shapes_print_names_or_numbers() -> None:
    scalar = Shape.scalar(F32)
    assert str(ProgramShape((scalar,), scalar, ("x",))) == "(x: f32[]) -> f32[]"
    assert str(ProgramShape((scalar,), scalar)) == "(p0: f32[]) -> f32[]"


@pytest.mark.parametrize(
    "shape",
    [
        Shape.array("f32", (2, 3)),
        Shape.array(np.float32, np.array([2, 3])),
        Shape.array(float, [np.int64(2), 3]),
        Shape("f32", (2, 3)),  # type: ignore[arg-type]
        Shape(np.dtype("float32"), [2, 3]),  # type: ignore[arg-type]
    ],
)
def test_types_and_sizes_as_people_write_them(shape: Shape) -> None:
    assert shape == Shape.parse("f32[2,3]")
    assert type(shape.element_type) is ElementType
    assert all(type(size) is int for size in shape.dimensions)


def test_one_size_is_one_dimension() -> None:
    assert Shape.array("s8", 4) == Shape("s8", 4) == Shape.parse("s8[4]")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda: Shape((3, 4), "f32"), r'as in Shape.array\("f32", \(3, 4\)\), got \(3, 4\)'),
        (lambda: Shape.array((3, 4), "f32"), r'as in Shape.array\("f32", \(3, 4\)\), got \(3, 4\)'),
        (lambda: Shape.array(3, np.int8), r'as in Shape.array\("s8", \(3,\)\), got 3'),
        (lambda: Shape.array([3, 4]), r'Shape.parse\("f32\[3,4\]"\), got \[3, 4\]'),
        (lambda: Shape.array("f32", 2.5), "dimensions must be an int or a sequence of ints, got 2"),
        (lambda: Shape.array("f32", (2.5,)), "sequence of ints, got "),
        (lambda: Shape.array("f32", "3"), "sequence of ints, got '3'"),
        (lambda: Shape("f32", None), "sequence of ints, got None"),
        (lambda: Shape(None), r"an element type must be .*, got None"),
        (lambda: Shape.parse(3), r'parsed from text as "f32\[2,3\]", got 3 \(int\)'),
    ],
)
def test_types_and_sizes_that_are_none(write: Callable[[], Shape], sentence: str) -> None:
    with pytest.raises(ArgumentTypeError, match=sentence):
        write()


def test_text_is_for_parse() -> None:
    with pytest.raises(InvalidArgumentError, match=r"got 'f32\[3\]'; .*Shape.parse takes text"):
        Shape("f32[3]")  # type: ignore[arg-type]


def test_a_shape_shows_its_text_and_no_elements() -> None:
    shape = Shape.parse("(f32[2,3]{1,0}, s32[])")
    assert repr(shape) == "Shape('(f32[2,3]{1,0}, s32[])')"
    padded = Shape(F32, (2,), Layout((0,), padded_dimensions=(4,)))
    texts = {
        repr(Shape.tuple_of(pair))
        for pair in ([padded, Shape.scalar(F32)], [Shape.scalar(F32), padded])
    }
    assert len(texts | {repr(padded)}) == 3
    assert "padded_dimensions=(4,)" in repr(padded)
    with pytest.raises(ArgumentTypeError, match=r"got f32\[2\]\{0\}; its sizes are shape\.dimens"):
        padded[0]
    with pytest.raises(TypeError, match=r"its elements are shape\.tuple_shapes"):
        list(shape)
