from typing import Any

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.shape import Shape, parse_program_shape, parse_shape
from xla_contract.wire.shape_proto import (
    MAX_NESTING,
    layout_from_proto,
    layout_to_proto,
    program_shape_from_proto,
    program_shape_to_proto,
    shape_from_proto,
    shape_to_proto,
)

F32: Any = int(ElementType.F32)
TUPLE: Any = int(ElementType.TUPLE)


def test_messages_are_written_as_todays_writers_write_them() -> None:
    assert shape_to_proto(parse_shape("f32[2,<=3]{0,1}")) == xla_data_pb2.ShapeProto(
        element_type=F32,
        dimensions=[2, 3],
        is_dynamic_dimension=[False, True],
        layout=xla_data_pb2.LayoutProto(
            minor_to_major=[0, 1], tail_padding_alignment_in_elements=1
        ),
    )
    assert list(shape_to_proto(parse_shape("f32[2]")).is_dynamic_dimension) == [False]


@pytest.mark.parametrize(
    "text",
    ["f32[2,3]{0,1:T(8,128)(2,*)L(2)E(4)S(1)}", "f32[<=2,?]", "(f32[2], (), (token[], opaque[]))"],
)
def test_shapes_come_back(text: str) -> None:
    shape = parse_shape(text)
    assert shape_from_proto(shape_to_proto(shape)) == shape


def test_padding_comes_back() -> None:
    layout = Layout((0, 1), (3, 5), PaddingValue.LOWEST_PAD)
    assert layout_from_proto(layout_to_proto(layout)) == layout


def test_a_layout_is_said_or_not() -> None:
    scalar = Shape.scalar(ElementType.F32)
    assert shape_from_proto(shape_to_proto(scalar)).layout is None
    assert shape_from_proto(shape_to_proto(scalar.with_layout(Layout(())))).layout == Layout(())


def test_retired_fields_of_old_writers_are_read() -> None:
    proto = xla_data_pb2.ShapeProto(rank=7, element_type=F32, dimensions=[2])
    proto.layout.minor_to_major.append(0)
    proto.layout.format = xla_data_pb2.LayoutProto.DENSE
    assert shape_from_proto(proto) == parse_shape("f32[2]{0}")


def nested(depth: int) -> xla_data_pb2.ShapeProto:
    proto = xla_data_pb2.ShapeProto(element_type=TUPLE)
    for _ in range(depth):
        proto = xla_data_pb2.ShapeProto(element_type=TUPLE, tuple_shapes=[proto])
    return proto


def test_nesting_has_a_limit() -> None:
    assert shape_from_proto(nested(MAX_NESTING)).is_tuple
    with pytest.raises(InvalidArgumentError, match=f"nest {MAX_NESTING} deep"):
        shape_from_proto(nested(MAX_NESTING + 1))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "got invalid"),
        ({"element_type": 99}, "number 99"),
        ({"element_type": ElementType.BUFFER}, "got buffer"),
        ({"element_type": F32, "dimensions": [-1]}, "dimension 0 = -1"),
        ({"element_type": F32, "dimensions": [1] * 33}, "33"),
        ({"element_type": F32, "dimensions": [2, 3], "layout": {}}, r"\{\} for f32\[2,3\]"),
        (
            {"element_type": F32, "dimensions": [2], "layout": {"minor_to_major": [1, 0]}},
            r"\{1,0\} for f32\[2\]",
        ),
        ({"element_type": F32, "layout": {"format": 2}}, "sparse"),
        ({"element_type": F32, "layout": {"dim_level_types": [0, 1]}}, "sparse"),
        ({"element_type": F32, "layout": {"padding_value": 9}}, "number 9"),
        ({"element_type": F32, "tuple_shapes": [{"element_type": F32}]}, "1 in f32"),
        ({"element_type": TUPLE, "dimensions": [2]}, "1 of tuple"),
        ({"element_type": ElementType.TOKEN, "tuple_shapes": [{}]}, "1 in token"),
        ({"element_type": F32, "dimensions": [2], "is_dynamic_dimension": [True] * 2}, "got 2"),
    ],
)
def test_wrong_messages_are_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        shape_from_proto(xla_data_pb2.ShapeProto(**fields))


def test_program_shapes() -> None:
    program = parse_program_shape("(x: f32[2]{0}, y: s32[]) -> (f32[2])")
    assert program_shape_from_proto(program_shape_to_proto(program)) == program
    with pytest.raises(InvalidArgumentError, match="must have a result"):
        program_shape_from_proto(xla_data_pb2.ProgramShapeProto())
    proto = program_shape_to_proto(program)
    proto.parameter_names.append("z")
    with pytest.raises(InvalidArgumentError, match="3 names for 2 parameters"):
        program_shape_from_proto(proto)
