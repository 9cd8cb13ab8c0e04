"""The compiled descriptors against the committed table of wire facts."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from xla_contract.descriptors import POOL, RPCS, SERVICE
from xla_contract.stubs import hlo_pb2, xla_data_pb2

FACTS = json.loads((Path(__file__).parents[2] / "data" / "wire_facts.json").read_text())
RETIRED = FACTS["retired"]
FILES = sorted(FACTS["messages"])


def file_proto(name: str) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    POOL.FindFileByName(name).CopyToProto(proto)
    return proto


def walk(
    messages: Any, scope: str = ""
) -> tuple[dict[str, DescriptorProto], dict[str, EnumDescriptorProto]]:
    found: dict[str, DescriptorProto] = {}
    enums: dict[str, EnumDescriptorProto] = {}
    for message in messages:
        if message.options.map_entry:
            continue
        name = scope + message.name
        found[name] = message
        enums |= {f"{name}.{enum.name}": enum for enum in message.enum_type}
        inner, inner_enums = walk(message.nested_type, f"{name}.")
        found |= inner
        enums |= inner_enums
    return found, enums


def type_of(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name.removeprefix(".xla.").removeprefix(".")
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def fact_of(message: DescriptorProto, field: FieldDescriptorProto) -> list[Any]:
    for entry in message.nested_type:
        if entry.options.map_entry and field.type_name.endswith(f".{message.name}.{entry.name}"):
            key, value = (type_of(part) for part in entry.field)
            return [field.number, f"map<{key},{value}>", "map"]
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        label = "repeated"
    elif field.proto3_optional:
        label = "optional-explicit"
    elif field.HasField("oneof_index"):
        label = f"oneof:{message.oneof_decl[field.oneof_index].name}"
    else:
        label = "optional"
    return [field.number, type_of(field), label]


def values_of(enum: EnumDescriptorProto) -> dict[str, int]:
    return {value.name: value.number for value in enum.value}


@pytest.mark.parametrize("name", FILES)
def test_messages_have_exactly_the_known_fields(name: str) -> None:
    messages, _ = walk(file_proto(name).message_type)
    expected = {
        message: fields | RETIRED["fields"].get(message, {})
        for message, fields in FACTS["messages"][name].items()
    }
    actual = {
        scope: {field.name: fact_of(message, field) for field in message.field}
        for scope, message in messages.items()
    }
    assert actual == expected


@pytest.mark.parametrize("name", FILES)
def test_enums_have_exactly_the_known_values(name: str) -> None:
    proto = file_proto(name)
    messages, nested = walk(proto.message_type)
    actual = {enum.name: values_of(enum) for enum in proto.enum_type}
    actual |= {scope: values_of(enum) for scope, enum in nested.items()}
    retired = {
        scope: values
        for scope, values in RETIRED["enums"].items()
        if scope.rpartition(".")[0] in messages
    }
    assert actual == FACTS["enums"][name] | retired


@pytest.mark.parametrize("name", FILES)
def test_reserved_numbers_and_names(name: str) -> None:
    messages, _ = walk(file_proto(name).message_type)
    actual = {
        scope: {
            "numbers": [n for part in message.reserved_range for n in range(part.start, part.end)],
            "names": list(message.reserved_name),
        }
        for scope, message in messages.items()
        if message.reserved_range or message.reserved_name
    }
    expected = {key: value for key, value in FACTS["reserved"].items() if key in messages}
    assert actual == expected


def test_deprecated_fields_are_the_superseded_and_the_retired_ones() -> None:
    actual = {
        f"{scope}.{field.name}"
        for name in FILES
        for scope, message in walk(file_proto(name).message_type)[0].items()
        for field in message.field
        if field.options.deprecated
    }
    retired = {
        f"{scope}.{field}" for scope in RETIRED["fields"] for field in RETIRED["fields"][scope]
    }
    assert actual == set(FACTS["deprecated"]) | retired


@pytest.mark.parametrize("name", [*FILES, "xla/xla_service.proto"])
def test_files_are_proto3_with_packed_numbers(name: str) -> None:
    proto = file_proto(name)
    assert (proto.syntax, proto.package) == ("proto3", FACTS["package"])
    messages, _ = walk(proto.message_type)
    assert not any(
        field.options.HasField("packed") for message in messages.values() for field in message.field
    )


def test_service_has_exactly_the_known_rpcs() -> None:
    facts = FACTS["service"]
    assert SERVICE.full_name == facts["name"]
    actual = {rpc.name: [rpc.request.DESCRIPTOR.name, rpc.response.DESCRIPTOR.name] for rpc in RPCS}
    assert actual == facts["rpcs"]
    assert [rpc.path for rpc in RPCS] == [facts["path_prefix"] + name for name in facts["rpcs"]]
    assert not any(rpc.request_streaming or rpc.response_streaming for rpc in RPCS)
    service_file = file_proto("xla/xla_service.proto")
    assert not service_file.message_type
    assert not service_file.enum_type


def test_layout_of_an_old_writer_is_read() -> None:
    old = bytes.fromhex("0a020100 12020304 1801 2002 2805".replace(" ", ""))
    layout = xla_data_pb2.LayoutProto.FromString(old)
    assert list(layout.minor_to_major) == [1, 0]
    assert list(layout.padded_dimensions) == [3, 4]
    assert layout.padding_value == xla_data_pb2.LayoutProto.ZERO_PAD
    assert layout.format == xla_data_pb2.LayoutProto.SPARSE
    assert layout.max_sparse_elements == 5


def test_custom_call_opaque_may_hold_any_bytes() -> None:
    # Field 53 was a string, but its writers did not keep to UTF-8.
    instruction = hlo_pb2.HloInstructionProto.FromString(b"\xaa\x03\x02\xff\xfe")
    assert instruction.custom_call_opaque == b"\xff\xfe"
