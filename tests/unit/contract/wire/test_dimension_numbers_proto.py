"""Every attribute of every operation in HLO text survives the wire, as does what the text says."""

from typing import Any

import pytest

from tests.corpus.hlo_programs import PROGRAMS, program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
    Window,
    WindowDimension,
)
from xla_contract.types.opcode import Opcode
from xla_contract.wire.dimension_numbers_proto import record_from_proto, record_to_proto
from xla_contract.wire.shape_proto import shape_from_proto


@pytest.mark.parametrize("name", PROGRAMS)
def test_attributes_are_written_as_they_were_read(name: str) -> None:
    parameters, *lines = PROGRAMS[name]
    for computation in parse_hlo(program(parameters, *lines)).computations:
        for proto in computation.instructions:
            found = definition(Opcode(proto.opcode))
            shape = shape_from_proto(proto.shape)
            attributes = found.decode(proto, shape)
            written = hlo_pb2.HloInstructionProto()
            found.encode(attributes, written)
            assert found.decode(written, shape) == attributes
            for field, value in written.ListFields():
                if field.name != "literal":
                    assert value == getattr(proto, field.name), field.name


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (DotDimensionNumbers((1,), (2, 3), (4,), (5,)), xla_data_pb2.DotDimensionNumbers),
        (
            ConvolutionDimensionNumbers(1, 2, (3, 4), 5, 6, (7,), 8, 9, (10,)),
            xla_data_pb2.ConvolutionDimensionNumbers,
        ),
        (
            GatherDimensionNumbers((1,), (2, 3), (4,), 5, (6,), (7,)),
            xla_data_pb2.GatherDimensionNumbers,
        ),
        (
            ScatterDimensionNumbers((1,), (2, 3), (4,), 5, (6,), (7,)),
            xla_data_pb2.ScatterDimensionNumbers,
        ),
        (
            Window((WindowDimension(1, 2, -3, 4, 5, 6, True), WindowDimension(7))),
            xla_data_pb2.Window,
        ),
        (
            PaddingConfig((PaddingDimension(-1, 2, 3), PaddingDimension(0, 4))),
            xla_data_pb2.PaddingConfig,
        ),
    ],
)
def test_each_field_survives_the_wire_by_itself(record: Any, message: Any) -> None:
    assert record_from_proto(type(record), record_to_proto(record, message())) == record


def test_fields_have_the_names_of_xla() -> None:
    convolution = xla_data_pb2.ConvolutionDimensionNumbers()
    record_to_proto(ConvolutionDimensionNumbers(1, 2, (3, 4), 5, 6, (7,), 8, 9, (10,)), convolution)
    said = convolution.kernel_output_feature_dimension, *convolution.input_spatial_dimensions
    assert said == (6, 3, 4)
    padding = xla_data_pb2.PaddingConfig()
    record_to_proto(PaddingConfig((PaddingDimension(-1, 2, 3),)), padding)
    (amounts,) = padding.dimensions
    said = amounts.edge_padding_low, amounts.edge_padding_high, amounts.interior_padding
    assert said == (-1, 2, 3)


def test_a_record_of_zeros_is_there() -> None:
    proto = hlo_pb2.HloInstructionProto()
    record_to_proto(DotDimensionNumbers(), proto.dot_dimension_numbers)
    assert proto.HasField("dot_dimension_numbers")


def test_text_is_hlo_s() -> None:
    assert str(PaddingConfig((PaddingDimension(-1, 2, 3), PaddingDimension(0, 4)))) == "-1_2_3x0_4"
    window = Window((WindowDimension(3, 2, 1, 1), WindowDimension(2, base_dilation=2)))
    assert str(window) == "{size=3x2 stride=2x1 pad=1_1x0_0 lhs_dilate=1x2}"
    nhwc = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    assert str(nhwc) == "b01f_01io->b01f"
