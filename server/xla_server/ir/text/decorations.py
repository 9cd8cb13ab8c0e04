"""The attributes that any instruction may have and that do not change what it computes.

They are kept in wire form, as HloInstruction.decoration is.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, Window
from xla_contract.wire.dimension_numbers_proto import record_from_proto, record_to_proto
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_server.ir.text import attribute_kinds as kinds
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.text.shardings import SHARDING

IGNORED = frozenset(
    {"origin", "original_value", "statistics", "mode", "conv_kind", "inferred_dimension"}
)
"""Attributes of other writers that are skipped: they do not change the value."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_METADATA: dict[str, kinds.AttributeKind] = {
    "op_type": kinds.STRING,
    "op_name": kinds.STRING,
    "source_file": kinds.STRING,
    "source_line": kinds.NARROW,
    "source_end_line": kinds.NARROW,
    "source_column": kinds.NARROW,
    "source_end_column": kinds.NARROW,
    "stack_frame_id": kinds.NARROW,
    "deduplicated_name": kinds.STRING,
    "scheduling_name": kinds.STRING,
}
_METADATA_VALUE = re.compile(r"[^\s{}\",]+")


def _metadata_text(metadata: xla_data_pb2.OpMetadata) -> str:
    parts = [
        f"{field.name}={_METADATA[field.name].write(value)}"
        for field, value in metadata.ListFields()
        if field.name in _METADATA
    ]
    return "{" + " ".join(parts) + "}"


def _read_metadata(reader: HloReader) -> xla_data_pb2.OpMetadata:
    metadata = xla_data_pb2.OpMetadata()
    reader.expect("{")
    while not reader.skip("}"):
        name = reader.word("a part of the metadata or }")
        reader.expect("=")
        if name in _METADATA:
            setattr(metadata, name, _METADATA[name].read(reader))
        elif reader.peek("{"):
            reader.dictionary()
        elif reader.peek('"'):
            reader.string()
        else:
            reader.match(_METADATA_VALUE, "a value")
        reader.skip(",")
    return metadata


def frontend_text(attributes: xla_data_pb2.FrontendAttributes) -> str:
    """`{name="value",...}`, in the order of the names."""
    pairs = sorted(attributes.map.items())
    parts = (f"{k}={kinds.JSON_OR_STRING.write(v.encode())}" for k, v in pairs if _KEY.fullmatch(k))
    return "{" + ",".join(parts) + "}"


def read_frontend(reader: HloReader) -> xla_data_pb2.FrontendAttributes:
    """Read the text of `frontend_text`."""

    def read_pair() -> tuple[str, str]:
        key = reader.match(_KEY, "the name of an attribute")[0]
        reader.expect("=")
        value: bytes = kinds.JSON_OR_STRING.read(reader)
        return key, value.decode(errors="replace")

    return xla_data_pb2.FrontendAttributes(map=dict(reader.braced(read_pair)))


def _accuracy_text(accuracy: xla_data_pb2.ResultAccuracy) -> str:
    if accuracy.HasField("tolerance"):
        given = accuracy.tolerance
        numbers = f"atol={kinds.DOUBLE.write(given.atol)},rtol={kinds.DOUBLE.write(given.rtol)}"
        return f"{{tolerance={{{numbers},ulps={given.ulps}}}}}"
    return f"{{mode={xla_data_pb2.ResultAccuracy.Mode.Name(accuracy.mode).lower()}}}"


def _read_accuracy(reader: HloReader) -> xla_data_pb2.ResultAccuracy:
    accuracy = xla_data_pb2.ResultAccuracy()
    if reader.skip("{mode="):
        modes = {number: name.lower() for name, number in accuracy.Mode.items()}
        accuracy.mode = kinds.words(modes).read(reader)
        reader.expect("}")
        return accuracy
    reader.expect("{tolerance=")
    accuracy.tolerance.SetInParent()

    def read_number() -> None:
        name = reader.word("atol, rtol or ulps")
        reader.expect("=")
        if name == "ulps":
            accuracy.tolerance.ulps = reader.signed()
        elif name == "atol":
            accuracy.tolerance.atol = reader.real()
        else:
            accuracy.tolerance.rtol = reader.real()

    reader.braced(read_number)
    reader.expect("}")
    return accuracy


def _aliasing_text(aliases: Any) -> str:
    parts = (
        f"{kinds.INTEGERS.write(alias.output_shape_index)}: "
        f"({alias.operand_index}, {kinds.INTEGERS.write(alias.operand_shape_index)})"
        for alias in aliases
    )
    return "{" + ", ".join(parts) + "}"


def _read_aliasing(reader: HloReader) -> list[xla_data_pb2.OutputOperandAliasing]:
    def read_alias() -> xla_data_pb2.OutputOperandAliasing:
        output = kinds.INTEGERS.read(reader)
        reader.expect(":")
        reader.expect("(")
        operand = reader.signed("the number of an operand")
        reader.expect(",")
        alias = xla_data_pb2.OutputOperandAliasing(
            output_shape_index=output,
            operand_index=operand,
            operand_shape_index=kinds.INTEGERS.read(reader),
        )
        reader.expect(")")
        return alias

    return reader.braced(read_alias)


@dataclasses.dataclass(frozen=True, slots=True)
class _Decoration:
    """An attribute and the field of the instruction's message that holds its value."""

    name: str
    field: str
    write: Callable[[Any], str]
    read: Callable[[HloReader], Any]


def _of_kind(name: str, field: str, kind: kinds.AttributeKind) -> _Decoration:
    return _Decoration(name, field, kind.write, kind.read)


def _converted(
    name: str,
    field: str,
    kind: kinds.AttributeKind,
    from_proto: Callable[[Any], Any],
    to_proto: Callable[..., Any],
) -> _Decoration:
    """A decoration whose message is converted to what a kind writes, and from what it reads."""
    return _Decoration(
        name,
        field,
        lambda proto: kind.write(from_proto(proto)),
        lambda reader: to_proto(kind.read(reader)),
    )


def _enumerated(name: str, field: str, kind: Any) -> _Decoration:
    return _of_kind(name, field, kinds.words({number: text for text, number in kind.items()}))


_DECORATIONS = (
    # Those of a convolution, on a custom call that computes one.
    _converted(
        "window",
        "window",
        kinds.WINDOW,
        lambda proto: record_from_proto(Window, proto),
        lambda window: record_to_proto(window, xla_data_pb2.Window()),
    ),
    _converted(
        "dim_labels",
        "convolution_dimension_numbers",
        kinds.DIM_LABELS,
        lambda proto: record_from_proto(ConvolutionDimensionNumbers, proto),
        lambda numbers: record_to_proto(numbers, xla_data_pb2.ConvolutionDimensionNumbers()),
    ),
    _of_kind("feature_group_count", "feature_group_count", kinds.INTEGER),
    _of_kind("is_composite", "is_composite", kinds.BOOL),
    _of_kind("is_host_transfer", "is_host_transfer", kinds.BOOL),
    _enumerated("padding_type", "padding_type", xla_data_pb2.PaddingType),
    _enumerated("schedule", "custom_call_schedule", hlo_pb2.CustomCallSchedule),
    _of_kind("cross_program_prefetch_index", "cross_program_prefetch_index", kinds.NARROW),
    _converted(
        "parameter_replication",
        "parameter_replication",
        kinds.in_braces(kinds.BOOL),
        lambda proto: proto.replicated_at_leaf_buffers,
        lambda flags: xla_data_pb2.ParameterReplication(replicated_at_leaf_buffers=flags),
    ),
    _Decoration(
        "output_to_operand_aliasing", "output_operand_aliasing", _aliasing_text, _read_aliasing
    ),
    _converted(
        "operand_layout_constraints",
        "operand_shapes_with_layout",
        kinds.SHAPES,
        lambda protos: map(shape_from_proto, protos),
        lambda shapes: list(map(shape_to_proto, shapes)),
    ),
    _Decoration("result_accuracy", "result_accuracy", _accuracy_text, _read_accuracy),
    _of_kind("sharding", "sharding", SHARDING),
    _Decoration("frontend_attributes", "frontend_attributes", frontend_text, read_frontend),
    _Decoration("metadata", "metadata", _metadata_text, _read_metadata),
    _of_kind("backend_config", "backend_config", kinds.JSON_OR_STRING),
)
_BY_NAME = {decoration.name: decoration for decoration in _DECORATIONS}


def decoration_texts(proto: hlo_pb2.HloInstructionProto) -> Iterator[str]:
    """`name=value` of everything in `proto` that HLO text has words for."""
    present = {field.name for field, _ in proto.ListFields()}
    for decoration in _DECORATIONS:
        if decoration.field not in present:
            continue
        text = decoration.write(getattr(proto, decoration.field))
        # Writers set messages that say nothing, and counts of one group.
        if text != "{}" and (decoration.field, text) != ("feature_group_count", "1"):
            yield f"{decoration.name}={text}"


def read_decoration(reader: HloReader, name: str, proto: hlo_pb2.HloInstructionProto) -> bool:
    """Read the value of attribute `name` into `proto`; False, nothing read, for other names."""
    decoration = _BY_NAME.get(name)
    if decoration is None:
        return False
    value = decoration.read(reader)
    target = getattr(proto, decoration.field)
    if isinstance(target, Message):
        target.CopyFrom(value)
        target.SetInParent()
    elif isinstance(value, list):
        target.extend(value)
    else:
        setattr(proto, decoration.field, value)
    if name == "operand_layout_constraints":
        proto.constrain_layout = True
    return True
