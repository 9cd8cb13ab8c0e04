"""Messages of windows, paddings and dimension numbers.

All but a padding's have fields of the records' names. Values read are unchecked.
"""

import dataclasses
from typing import Any, TypeVar

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

R = TypeVar("R")


def window_to_proto(window: Window) -> xla_data_pb2.Window:
    """Return the message of a window."""
    return xla_data_pb2.Window(
        dimensions=[xla_data_pb2.WindowDimension(**_fields(each)) for each in window.dimensions]
    )


def window_from_proto(proto: xla_data_pb2.Window) -> Window:
    """Return the window of a message."""
    return Window(tuple(_read(WindowDimension, each) for each in proto.dimensions))


def padding_config_to_proto(config: PaddingConfig) -> xla_data_pb2.PaddingConfig:
    """Return the message of a padding."""
    return xla_data_pb2.PaddingConfig(
        dimensions=[
            xla_data_pb2.PaddingConfig.PaddingConfigDimension(
                edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior
            )
            for d in config.dimensions
        ]
    )


def padding_config_from_proto(proto: xla_data_pb2.PaddingConfig) -> PaddingConfig:
    """Return the padding of a message."""
    return PaddingConfig(
        tuple(
            PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
            for d in proto.dimensions
        )
    )


def dot_numbers_to_proto(numbers: DotDimensionNumbers) -> xla_data_pb2.DotDimensionNumbers:
    """Return the message of a dot's dimension numbers."""
    return xla_data_pb2.DotDimensionNumbers(**_fields(numbers))


def dot_numbers_from_proto(proto: xla_data_pb2.DotDimensionNumbers) -> DotDimensionNumbers:
    """Return a dot's dimension numbers of a message."""
    return _read(DotDimensionNumbers, proto)


def convolution_numbers_to_proto(
    numbers: ConvolutionDimensionNumbers,
) -> xla_data_pb2.ConvolutionDimensionNumbers:
    """Return the message of a convolution's dimension numbers."""
    return xla_data_pb2.ConvolutionDimensionNumbers(**_fields(numbers))


def convolution_numbers_from_proto(
    proto: xla_data_pb2.ConvolutionDimensionNumbers,
) -> ConvolutionDimensionNumbers:
    """Return a convolution's dimension numbers of a message."""
    return _read(ConvolutionDimensionNumbers, proto)


def gather_numbers_to_proto(
    numbers: GatherDimensionNumbers,
) -> xla_data_pb2.GatherDimensionNumbers:
    """Return the message of a gather's dimension numbers."""
    return xla_data_pb2.GatherDimensionNumbers(**_fields(numbers))


def gather_numbers_from_proto(proto: xla_data_pb2.GatherDimensionNumbers) -> GatherDimensionNumbers:
    """Return a gather's dimension numbers of a message."""
    return _read(GatherDimensionNumbers, proto)


def scatter_numbers_to_proto(
    numbers: ScatterDimensionNumbers,
) -> xla_data_pb2.ScatterDimensionNumbers:
    """Return the message of a scatter's dimension numbers."""
    return xla_data_pb2.ScatterDimensionNumbers(**_fields(numbers))


def scatter_numbers_from_proto(
    proto: xla_data_pb2.ScatterDimensionNumbers,
) -> ScatterDimensionNumbers:
    """Return a scatter's dimension numbers of a message."""
    return _read(ScatterDimensionNumbers, proto)


_NAMES: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (
        ConvolutionDimensionNumbers,
        DotDimensionNumbers,
        GatherDimensionNumbers,
        ScatterDimensionNumbers,
        WindowDimension,
    )
}


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _NAMES[type(record)]}


def _read(kind: type[R], proto: Any) -> R:
    values = [getattr(proto, name) for name in _NAMES[kind]]
    return kind(*(each if isinstance(each, int) else tuple(each) for each in values))
