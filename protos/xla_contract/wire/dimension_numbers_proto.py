"""Messages of windows, paddings and dimension numbers."""

from xla_contract.stubs import xla_data_pb2
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


def window_to_proto(window: Window) -> xla_data_pb2.Window:
    """The wire form of a window."""
    return xla_data_pb2.Window(
        dimensions=[
            xla_data_pb2.WindowDimension(
                size=d.size,
                stride=d.stride,
                padding_low=d.padding_low,
                padding_high=d.padding_high,
                window_dilation=d.window_dilation,
                base_dilation=d.base_dilation,
                window_reversal=d.window_reversal,
            )
            for d in window.dimensions
        ]
    )


def window_from_proto(proto: xla_data_pb2.Window) -> Window:
    """The window of a wire message, unchecked."""
    return Window(
        tuple(
            WindowDimension(
                d.size,
                d.stride,
                d.padding_low,
                d.padding_high,
                d.window_dilation,
                d.base_dilation,
                d.window_reversal,
            )
            for d in proto.dimensions
        )
    )


def padding_config_to_proto(config: PaddingConfig) -> xla_data_pb2.PaddingConfig:
    """The wire form of a padding."""
    return xla_data_pb2.PaddingConfig(
        dimensions=[
            xla_data_pb2.PaddingConfig.PaddingConfigDimension(
                edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior
            )
            for d in config.dimensions
        ]
    )


def padding_config_from_proto(proto: xla_data_pb2.PaddingConfig) -> PaddingConfig:
    """The padding of a wire message, unchecked."""
    return PaddingConfig(
        tuple(
            PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
            for d in proto.dimensions
        )
    )


def dot_numbers_to_proto(numbers: DotDimensionNumbers) -> xla_data_pb2.DotDimensionNumbers:
    """The wire form of a dot's dimension numbers."""
    return xla_data_pb2.DotDimensionNumbers(
        lhs_contracting_dimensions=numbers.lhs_contracting_dimensions,
        rhs_contracting_dimensions=numbers.rhs_contracting_dimensions,
        lhs_batch_dimensions=numbers.lhs_batch_dimensions,
        rhs_batch_dimensions=numbers.rhs_batch_dimensions,
    )


def dot_numbers_from_proto(proto: xla_data_pb2.DotDimensionNumbers) -> DotDimensionNumbers:
    """A dot's dimension numbers from the wire, unchecked."""
    return DotDimensionNumbers(
        tuple(proto.lhs_contracting_dimensions),
        tuple(proto.rhs_contracting_dimensions),
        tuple(proto.lhs_batch_dimensions),
        tuple(proto.rhs_batch_dimensions),
    )


def convolution_numbers_to_proto(
    numbers: ConvolutionDimensionNumbers,
) -> xla_data_pb2.ConvolutionDimensionNumbers:
    """The wire form of a convolution's dimension numbers."""
    return xla_data_pb2.ConvolutionDimensionNumbers(
        input_batch_dimension=numbers.input_batch_dimension,
        input_feature_dimension=numbers.input_feature_dimension,
        input_spatial_dimensions=numbers.input_spatial_dimensions,
        kernel_input_feature_dimension=numbers.kernel_input_feature_dimension,
        kernel_output_feature_dimension=numbers.kernel_output_feature_dimension,
        kernel_spatial_dimensions=numbers.kernel_spatial_dimensions,
        output_batch_dimension=numbers.output_batch_dimension,
        output_feature_dimension=numbers.output_feature_dimension,
        output_spatial_dimensions=numbers.output_spatial_dimensions,
    )


def convolution_numbers_from_proto(
    proto: xla_data_pb2.ConvolutionDimensionNumbers,
) -> ConvolutionDimensionNumbers:
    """A convolution's dimension numbers from the wire, unchecked."""
    return ConvolutionDimensionNumbers(
        proto.input_batch_dimension,
        proto.input_feature_dimension,
        tuple(proto.input_spatial_dimensions),
        proto.kernel_input_feature_dimension,
        proto.kernel_output_feature_dimension,
        tuple(proto.kernel_spatial_dimensions),
        proto.output_batch_dimension,
        proto.output_feature_dimension,
        tuple(proto.output_spatial_dimensions),
    )


def gather_numbers_to_proto(
    numbers: GatherDimensionNumbers,
) -> xla_data_pb2.GatherDimensionNumbers:
    """The wire form of a gather's dimension numbers."""
    return xla_data_pb2.GatherDimensionNumbers(
        offset_dims=numbers.offset_dims,
        collapsed_slice_dims=numbers.collapsed_slice_dims,
        start_index_map=numbers.start_index_map,
        index_vector_dim=numbers.index_vector_dim,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.start_indices_batching_dims,
    )


def gather_numbers_from_proto(
    proto: xla_data_pb2.GatherDimensionNumbers,
) -> GatherDimensionNumbers:
    """A gather's dimension numbers from the wire, unchecked."""
    return GatherDimensionNumbers(
        tuple(proto.offset_dims),
        tuple(proto.collapsed_slice_dims),
        tuple(proto.start_index_map),
        proto.index_vector_dim,
        tuple(proto.operand_batching_dims),
        tuple(proto.start_indices_batching_dims),
    )


def scatter_numbers_to_proto(
    numbers: ScatterDimensionNumbers,
) -> xla_data_pb2.ScatterDimensionNumbers:
    """The wire form of a scatter's dimension numbers."""
    return xla_data_pb2.ScatterDimensionNumbers(
        update_window_dims=numbers.update_window_dims,
        inserted_window_dims=numbers.inserted_window_dims,
        scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
        index_vector_dim=numbers.index_vector_dim,
        input_batching_dims=numbers.input_batching_dims,
        scatter_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )


def scatter_numbers_from_proto(
    proto: xla_data_pb2.ScatterDimensionNumbers,
) -> ScatterDimensionNumbers:
    """A scatter's dimension numbers from the wire, unchecked."""
    return ScatterDimensionNumbers(
        tuple(proto.update_window_dims),
        tuple(proto.inserted_window_dims),
        tuple(proto.scatter_dims_to_operand_dims),
        proto.index_vector_dim,
        tuple(proto.input_batching_dims),
        tuple(proto.scatter_indices_batching_dims),
    )
