"""The first part of a module in HLO text: its name, its attributes, the stack frames."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.shape import ProgramShape
from xla_server.ir.module import HloModule
from xla_server.ir.text.attribute_kinds import INTEGERS, STRING
from xla_server.ir.text.decorations import frontend_text, read_frontend
from xla_server.ir.text.scanner import HloReader

_IGNORED = frozenset(
    {
        "allow_spmd_sharding_propagation_to_parameters",
        "allow_spmd_sharding_propagation_to_output",
        "alias_passthrough_params",
        "origin_recovery_table",
        "original_value_recovery_table",
        "device_type",
    }
)
"""Attributes about compilation, which are part of the compile request here."""

_MAX_DEVICES = 1 << 12
"""Devices that a grid may have: what a server may have at most."""

_ALIAS_KINDS = {hlo_pb2.MAY_ALIAS: "may-alias", hlo_pb2.MUST_ALIAS: "must-alias"}


@dataclasses.dataclass(slots=True)
class Header:
    """The module's header, before the computations; `layout` is None if absent."""

    name: str
    layout: ProgramShape | None
    is_scheduled: bool
    decoration: hlo_pb2.HloModuleProto
    grid: DeviceGrid = ALONE


def header_text(name: str, module: HloModule) -> Iterator[str]:
    """Return the lines of a module's header, with all of its decoration that HLO text can state."""
    proto = module.decoration or hlo_pb2.HloModuleProto()
    layout, grid = module.entry_program_shape, module.grid
    parts = [f"HloModule {name}"]
    if proto.HasField("schedule"):
        parts.append("is_scheduled=true")
    if proto.input_output_alias.entries:
        aliases = (
            f"{_index(entry.output_shape_index)}: ({entry.parameter_number}, "
            f"{_index(entry.parameter_shape_index)}, {_ALIAS_KINDS[entry.kind]})"
            for entry in proto.input_output_alias.entries
            if entry.kind in _ALIAS_KINDS
        )
        parts.append(f"input_output_alias={{ {', '.join(aliases)} }}")
    if proto.buffer_donor.entries:
        donors = (
            f"({entry.parameter_number}, {_index(entry.parameter_shape_index)})"
            for entry in proto.buffer_donor.entries
        )
        parts.append(f"buffer_donor={{ {', '.join(donors)} }}")
    parameters = ", ".join(map(str, layout.parameters))
    parts.append(f"entry_computation_layout={{({parameters})->{layout.result}}}")
    if proto.frontend_attributes.map:
        parts.append(f"frontend_attributes={frontend_text(proto.frontend_attributes)}")
    if grid.replicas > 1:
        parts.append(f"replica_count={grid.replicas}")
    if grid.partitions > 1:
        parts.append(f"num_partitions={grid.partitions}")
    yield ", ".join(parts)
    yield ""
    if proto.HasField("stack_frame_index"):
        yield from _frames_text(proto.stack_frame_index)


_COMPUTATION = re.compile(r"(?:ENTRY\s+)?%?[A-Za-z0-9_][A-Za-z0-9_.\-]*\s*[({]")


def read_header(reader: HloReader) -> Header:
    """Read the header that begins here; a text that begins with a computation has none."""
    reader.space()
    if _COMPUTATION.match(reader.text, reader.at):
        return Header("module", None, False, hlo_pb2.HloModuleProto())
    reader.expect("HloModule")
    header = Header(reader.name("a module's name"), None, False, hlo_pb2.HloModuleProto())
    reader.skip(":")
    while reader.skip(","):
        start = reader.at
        name = reader.word("the name of a module's attribute")
        reader.expect("=")
        if name == "is_scheduled":
            header.is_scheduled = reader.boolean()
        elif name == "entry_computation_layout":
            reader.expect("{")
            header.layout = reader.program_shape()
            reader.expect("}")
        elif name == "input_output_alias":
            reader.braced(lambda: _read_alias(reader, header.decoration))
        elif name == "buffer_donor":
            reader.braced(lambda: _read_donor(reader, header.decoration))
        elif name == "frontend_attributes":
            header.decoration.frontend_attributes.CopyFrom(read_frontend(reader))
        elif name in _GRID_FIELDS:
            header.grid = _read_grid(reader, header.grid, _GRID_FIELDS[name])
        elif name in _IGNORED:
            reader.ignore_value()
        else:
            reader.refuse("a module's attributes must be known", repr(name), start)
    _read_frames(reader, header.decoration)
    return header


_GRID_FIELDS = {"replica_count": "replicas", "num_partitions": "partitions"}


def _read_grid(reader: HloReader, grid: DeviceGrid, field: str) -> DeviceGrid:
    """Return the grid with this count, if it has no more devices than a server may have."""
    start = reader.at
    count = reader.narrow()
    found = dataclasses.replace(grid, **{field: max(count, 1)})
    if count < 1 or found.size > _MAX_DEVICES:
        rule = f"a program must run on 1 to {_MAX_DEVICES} devices"
        reader.refuse(rule, f"{count} {field}", start)
    return found


def _read_alias(reader: HloReader, proto: hlo_pb2.HloModuleProto) -> None:
    output = INTEGERS.read(reader)
    reader.expect(":")
    reader.expect("(")
    entry = proto.input_output_alias.entries.add(output_shape_index=output)
    entry.parameter_number = reader.signed("the number of a parameter")
    entry.kind = hlo_pb2.MAY_ALIAS
    if reader.skip(","):
        entry.parameter_shape_index.extend(INTEGERS.read(reader))
    if reader.skip(","):
        kinds = {text: kind for kind, text in _ALIAS_KINDS.items()}
        rule = "an alias must be a may-alias or a must-alias"
        entry.kind = reader.known(reader.word, "may-alias or must-alias", kinds, rule)
    reader.expect(")")


def _read_donor(reader: HloReader, proto: hlo_pb2.HloModuleProto) -> None:
    reader.expect("(")
    entry = proto.buffer_donor.entries.add()
    entry.parameter_number = reader.signed("the number of a parameter")
    reader.expect(",")
    entry.parameter_shape_index.extend(INTEGERS.read(reader))
    reader.expect(")")


_NAME_SECTIONS = {"FileNames": "file_names", "FunctionNames": "function_names"}
_RECORD_SECTIONS = {"FileLocations": "file_locations", "StackFrames": "stack_frames"}
_index = INTEGERS.write
_SECTION = re.compile(rf"(?:{'|'.join(_NAME_SECTIONS | _RECORD_SECTIONS)})\b")
_DIGIT = re.compile("[0-9]")
_LOCATION_FIELDS = (
    "file_name_id",
    "function_name_id",
    "line",
    "end_line",
    "column",
    "end_column",
)


def _frames_text(index: hlo_pb2.StackFrameIndexProto) -> Iterator[str]:
    for title, field in _NAME_SECTIONS.items():
        yield title
        for number, name in enumerate(getattr(index, field), 1):
            yield f"{number} {STRING.write(name)}"
        yield ""
    yield "FileLocations"
    for number, location in enumerate(index.file_locations, 1):
        fields = " ".join(f"{name}={getattr(location, name)}" for name in _LOCATION_FIELDS)
        yield f"{number} {{{fields}}}"
    yield ""
    yield "StackFrames"
    for number, frame in enumerate(index.stack_frames, 1):
        parent = frame.parent_frame_id
        yield f"{number} {{file_location_id={frame.file_location_id} parent_frame_id={parent + 1}}}"
    yield ""


def _read_frames(reader: HloReader, proto: hlo_pb2.HloModuleProto) -> None:
    index = proto.stack_frame_index
    reader.space()
    while section := _SECTION.match(reader.text, reader.at):
        index.SetInParent()
        reader.at = section.end()
        reader.space()
        while _DIGIT.match(reader.text, reader.at):
            reader.narrow()
            if section[0] in _NAME_SECTIONS:
                getattr(index, _NAME_SECTIONS[section[0]]).append(STRING.read(reader))
            else:
                _read_record(reader, getattr(index, _RECORD_SECTIONS[section[0]]).add())
            reader.space()


def _read_record(reader: HloReader, record: Any) -> None:
    reader.expect("{")
    while not reader.skip("}"):
        fields = {name: name for name in record.DESCRIPTOR.fields_by_name}
        name = reader.known(reader.word, "a field or }", fields, "a stack frame has no such field")
        reader.expect("=")
        value = reader.narrow()
        setattr(record, name, max(0, value - 1) if name == "parent_frame_id" else value)
