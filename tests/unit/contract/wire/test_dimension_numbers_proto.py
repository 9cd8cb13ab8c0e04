"""Every attribute of every operation in HLO text survives the wire, as does what the text says."""

import pytest

from tests.corpus.hlo_programs import PROGRAMS, program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
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
from xla_contract.wire.dimension_numbers_proto import (
    convolution_numbers_from_proto,
    convolution_numbers_to_proto,
    dot_numbers_from_proto,
    dot_numbers_to_proto,
    gather_numbers_from_proto,
    gather_numbers_to_proto,
    padding_config_from_proto,
    padding_config_to_proto,
    scatter_numbers_from_proto,
    scatter_numbers_to_proto,
    window_from_proto,
    window_to_proto,
)
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


def test_padding_survives_the_wire() -> None:
    config = PaddingConfig((PaddingDimension(-1, 2, 3), PaddingDimension(0, 4)))
    assert padding_config_from_proto(padding_config_to_proto(config)) == config
    assert str(config) == "-1_2_3x0_4"


def test_each_field_survives_the_wire_by_itself() -> None:
    dot = DotDimensionNumbers((1,), (2, 3), (4,), (5,))
    assert dot_numbers_from_proto(dot_numbers_to_proto(dot)) == dot
    convolution = ConvolutionDimensionNumbers(1, 2, (3, 4), 5, 6, (7,), 8, 9, (10,))
    written = convolution_numbers_to_proto(convolution)
    assert convolution_numbers_from_proto(written) == convolution
    assert (written.kernel_output_feature_dimension, *written.input_spatial_dimensions) == (6, 3, 4)
    gather = GatherDimensionNumbers((1,), (2, 3), (4,), 5, (6,), (7,))
    assert gather_numbers_from_proto(gather_numbers_to_proto(gather)) == gather
    scatter = ScatterDimensionNumbers((1,), (2, 3), (4,), 5, (6,), (7,))
    assert scatter_numbers_from_proto(scatter_numbers_to_proto(scatter)) == scatter
    window = Window((WindowDimension(1, 2, -3, 4, 5, 6, True), WindowDimension(7)))
    assert window_from_proto(window_to_proto(window)) == window


def test_text_is_hlo_s() -> None:
    window = Window((WindowDimension(3, 2, 1, 1), WindowDimension(2, base_dilation=2)))
    assert str(window) == "{size=3x2 stride=2x1 pad=1_1x0_0 lhs_dilate=1x2}"
    nhwc = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    assert str(nhwc) == "b01f_01io->b01f"
