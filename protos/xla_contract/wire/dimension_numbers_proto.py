"""Messages of windows, paddings and dimension numbers.

All but a padding's have fields of the records' names. Values read are unchecked.
"""

import dataclasses
from typing import Any, TypeVar

from google.protobuf.message import Message

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
M = TypeVar("M", bound=Message)

_ELEMENTS: dict[type, type] = {Window: WindowDimension, PaddingConfig: PaddingDimension}
"""The records that have one record for each dimension."""

_NAMES: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (
        ConvolutionDimensionNumbers,
        DotDimensionNumbers,
        GatherDimensionNumbers,
        ScatterDimensionNumbers,
        WindowDimension,
    )
} | {PaddingDimension: ("edge_padding_low", "edge_padding_high", "interior_padding")}
"""The fields of messages, in the order of the records'."""


def record_from_proto(kind: type[R], proto: Any) -> R:
    """Return the record of this kind that a message holds."""
    element = _ELEMENTS.get(kind)
    if element is None:
        return _read(kind, proto)
    make: Any = kind
    record: R = make(tuple(_read(element, each) for each in proto.dimensions))
    return record


def record_to_proto(record: Any, proto: M) -> M:
    """Set an empty message to the contents of a record, which may be empty, and return it."""
    message: Any = proto
    message.SetInParent()
    if type(record) in _ELEMENTS:
        for each in record.dimensions:
            _write(each, message.dimensions.add())
    else:
        _write(record, message)
    return proto


def _read(kind: type[R], proto: Any) -> R:
    values = [getattr(proto, name) for name in _NAMES[kind]]
    make: Any = kind
    record: R = make(*(each if isinstance(each, int) else tuple(each) for each in values))
    return record


def _write(record: Any, proto: Any) -> None:
    for name, field in zip(_NAMES[type(record)], record.__match_args__, strict=True):
        value = getattr(record, field)
        if isinstance(value, int):
            setattr(proto, name, value)
        else:
            getattr(proto, name).extend(value)
