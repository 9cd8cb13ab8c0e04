"""Compile options of a computation, as messages."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_client.programs.compile_options import LayoutChoice, compiled_shape, execution_options
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import shape_from_proto

MATRIX, PAIR = Shape.parse("f32[2,3]"), Shape.parse("(f32[2,3], s32[4])")
PROGRAM = ProgramShape((MATRIX, PAIR), PAIR, ("x", "y"))
COLUMNS = Layout((0, 1))


def test_what_is_not_chosen_is_row_major() -> None:
    shape = compiled_shape(PROGRAM, None, None)
    assert shape == ProgramShape(
        (MATRIX.with_default_layout(), PAIR.with_default_layout()),
        PAIR.with_default_layout(),
        ("x", "y"),
    )
    assert compiled_shape(PROGRAM, [None, None], None) == shape


def test_layouts_go_to_what_they_are_chosen_for() -> None:
    pair = Shape.parse("(f32[2,3]{0,1}, s32[4])")
    shape = compiled_shape(PROGRAM, [COLUMNS, pair], pair)
    assert shape.parameters == (Shape.parse("f32[2,3]{0,1}"), pair.with_default_layout())
    assert shape.result == pair.with_default_layout()
    # An array takes a shape too.
    assert compiled_shape(PROGRAM, [Shape.parse("f32[2,3]{0,1}"), None], None).parameters[0] == (
        Shape.parse("f32[2,3]{0,1}")
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_one_entry_per_parameter(count: int) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=rf"^argument_layouts must have one entry per parameter, got {count} for \(x: f32",
    ):
        compiled_shape(PROGRAM, [None] * count, None)


@pytest.mark.parametrize(
    ("layouts", "result", "rule"),
    [
        ([None, COLUMNS], None, r"^parameter 1: only an array takes a Layout .*got \(f32\[2,3\]"),
        (None, COLUMNS, r"^the result: only an array takes a Layout"),
        ([PAIR, None], None, r"^parameter 0: a layout must be for the same .*s32\[4\].*f32\[2,3\]"),
        ([Shape.parse("f32[3,2]{1,0}"), None], None, r"^parameter 0: .*got f32\[3,2\].*f32\[2,3\]"),
        (None, MATRIX, r"^the result: a layout must be for the same types and dimensions, got f32"),
        ([Layout((0,)), None], None, "layout|rank"),
    ],
)
def test_what_does_not_fit_is_named(
    layouts: list[LayoutChoice] | None, result: LayoutChoice, rule: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rule):
        compiled_shape(PROGRAM, layouts, result)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    dimensions = draw(st.lists(st.integers(0, 9), max_size=4))
    order = draw(st.permutations(range(len(dimensions))))
    array = Shape.array(draw(st.sampled_from([ElementType.F32, ElementType.S4])), dimensions)
    return array.with_layout(Layout(tuple(order)))


@settings(max_examples=30, deadline=None)
@given(shapes() | st.lists(shapes(), max_size=3).map(Shape.tuple_of), st.integers(0, 2**64 - 1))
def test_the_message_says_it_all(result: Shape, seed: int) -> None:
    wire = execution_options(result, seed).SerializeToString()
    message = xla_pb2.ExecutionOptions.FromString(wire)
    assert shape_from_proto(message.shape_with_output_layout) == result
    assert message.seed == seed
    assert not message.HasField("debug_options")


def test_debug_options_are_fields() -> None:
    given_ = {"xla_hlo_profile": True, "xla_disable_hlo_passes": ["cse", "dce"]}
    message = execution_options(MATRIX, debug_options=given_)
    assert message.debug_options.xla_hlo_profile
    assert list(message.debug_options.xla_disable_hlo_passes) == ["cse", "dce"]
    # Layouts that were left open are said.
    assert shape_from_proto(message.shape_with_output_layout) == MATRIX.with_default_layout()
    assert not execution_options(MATRIX, debug_options={}).HasField("debug_options")


@pytest.mark.parametrize(
    "wrong", [{"no_such_option": 1}, {"xla_hlo_profile": "yes"}, {"xla_disable_hlo_passes": 3}]
)
def test_what_is_no_field_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        execution_options(MATRIX, debug_options=wrong)
    assert caught.value.message.startswith(
        f"debug_options must be fields of DebugOptions, got {wrong}: "
    )


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_is_a_uint64(seed: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"^seed must be between 0 and 2\*\*64 - 1, got {seed}$"
    ):
        execution_options(MATRIX, seed)
