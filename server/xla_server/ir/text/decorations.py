"""The attributes of any instruction that do not change what it computes, kept in wire form."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, Window
from xla_contract.wire.dimension_numbers_proto import record_from_proto, record_to_proto
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_server.ir.text import attribute_kinds as kinds
from xla_server.ir.text.literals import print_literal, read_literal
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.text.shardings import SHARDING

IGNORED = frozenset(
    {
        "origin",
        "original_value",
        "statistics",
        "mode",
        "conv_kind",
        "convolution_kind",
        "inferred_dimension",
        "sparsity_config",
    }
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


def _literal_text(proto: xla_data_pb2.LiteralProto) -> str:
    literal = literal_from_proto(proto)
    return f"{literal.shape} {print_literal(literal)}"


def _read_literal(reader: HloReader) -> xla_data_pb2.LiteralProto:
    return literal_to_proto(read_literal(reader, reader.shape()))


def _converted(
    kind: kinds.AttributeKind, from_proto: Callable[[Any], Any], to_proto: Callable[..., Any]
) -> kinds.AttributeKind:
    """Return the kind of a message that is written by `kind` after a conversion, and read by it."""
    return kinds.AttributeKind(
        lambda proto: kind.write(from_proto(proto)), lambda reader: to_proto(kind.read(reader))
    )


def _enumerated(kind: Any) -> kinds.AttributeKind:
    return kinds.words({number: text for text, number in kind.items()})


_DECORATIONS: Mapping[str, kinds.AttributeKind] = {
    # The attributes of a convolution, on a custom call that computes one.
    "window": _converted(
        kinds.WINDOW,
        lambda proto: record_from_proto(Window, proto),
        lambda window: record_to_proto(window, xla_data_pb2.Window()),
    ),
    "dim_labels": _converted(
        kinds.DIM_LABELS,
        lambda proto: record_from_proto(ConvolutionDimensionNumbers, proto),
        lambda numbers: record_to_proto(numbers, xla_data_pb2.ConvolutionDimensionNumbers()),
    ),
    "feature_group_count": kinds.INTEGER,
    "batch_group_count": kinds.INTEGER,
    "operand_precision": _converted(
        kinds.PRECISIONS,
        lambda proto: proto.operand_precision if any(proto.operand_precision) else (),
        lambda numbers: xla_data_pb2.PrecisionConfig(operand_precision=numbers),
    ),
    "literal": kinds.AttributeKind(_literal_text, _read_literal),
    "is_composite": kinds.BOOL,
    "is_host_transfer": kinds.BOOL,
    "padding_type": _enumerated(xla_data_pb2.PaddingType),
    "schedule": _enumerated(hlo_pb2.CustomCallSchedule),
    "cross_program_prefetch_index": kinds.NARROW,
    "parameter_replication": _converted(
        kinds.in_braces(kinds.BOOL),
        lambda proto: proto.replicated_at_leaf_buffers,
        lambda flags: xla_data_pb2.ParameterReplication(replicated_at_leaf_buffers=flags),
    ),
    "output_to_operand_aliasing": kinds.AttributeKind(_aliasing_text, _read_aliasing),
    "operand_layout_constraints": _converted(
        kinds.SHAPES,
        lambda protos: map(shape_from_proto, protos),
        lambda shapes: list(map(shape_to_proto, shapes)),
    ),
    "result_accuracy": kinds.AttributeKind(_accuracy_text, _read_accuracy),
    "sharding": SHARDING,
    "frontend_attributes": kinds.AttributeKind(frontend_text, read_frontend),
    "metadata": kinds.AttributeKind(_metadata_text, _read_metadata),
    "backend_config": kinds.JSON_OR_STRING,
}
_FIELDS = {
    "dim_labels": "convolution_dimension_numbers",
    "operand_precision": "precision_config",
    "schedule": "custom_call_schedule",
    "output_to_operand_aliasing": "output_operand_aliasing",
    "operand_layout_constraints": "operand_shapes_with_layout",
}
"""Fields of the message that are not named as their attributes."""


_SILENT = {("feature_group_count", "1"), ("batch_group_count", "1")}
"""Texts that are left out: some writers set these fields always."""


def decoration_texts(proto: hlo_pb2.HloInstructionProto) -> Iterator[str]:
    """`name=value` of everything in `proto` that HLO text has words for."""
    present = {field.name for field, _ in proto.ListFields()}
    for name, kind in _DECORATIONS.items():
        field = _FIELDS.get(name, name)
        text = kind.write(getattr(proto, field)) if field in present else "{}"
        # Some writers set messages that state nothing.
        if text != "{}" and (name, text) not in _SILENT:
            yield f"{name}={text}"


def read_decoration(reader: HloReader, name: str, proto: hlo_pb2.HloInstructionProto) -> bool:
    """Read the value of attribute `name` into `proto`; return False for an unknown name."""
    if name not in _DECORATIONS:
        return False
    field, value = _FIELDS.get(name, name), _DECORATIONS[name].read(reader)
    target = getattr(proto, field)
    if isinstance(target, Message):
        target.CopyFrom(value)
        target.SetInParent()
    elif isinstance(value, list):
        target.extend(value)
    else:
        setattr(proto, field, value)
    if name == "operand_layout_constraints":
        proto.constrain_layout = True
    return True
