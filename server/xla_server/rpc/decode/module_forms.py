"""Programs in their written forms: HLO text, serialized modules, graphs."""

from collections.abc import Mapping
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import hlo_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.wire.literals.parsed_size import check_parse_size
from xla_server.backends.compile_options import DumpFormat
from xla_server.backends.diagnostics.dump import PRINTERS, printed_bytes
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.text.parser import parse_module
from xla_server.ir.verification.verifier import verify

M = TypeVar("M", bound=Message)

MAX_TEXT_CHARACTERS = 1 << 26
"""Characters of HLO text: lists of numbers take some 25 times as many bytes while it is read."""

_FORMATS: Mapping[int, DumpFormat] = {extension_pb2.MODULE_FORMAT_UNSPECIFIED: DumpFormat.TEXT} | {
    extension_pb2.ModuleFormat.Value(f"MODULE_FORMAT_{each.name}"): each for each in DumpFormat
}


def format_of(number: int) -> DumpFormat:
    """Return the form of a number of the contract; raises InvalidArgumentError for others."""
    found = _FORMATS.get(number)
    if found is None:
        known = ", ".join(extension_pb2.ModuleFormat.keys())
        raise InvalidArgumentError(f"a format must be one of {known}, got {number}")
    return found


def read_source(
    source: extension_pb2.ModuleSource,
) -> tuple[hlo_pb2.HloModuleProto, DeviceGrid]:
    """Read a module, and the grid that the header of its text says.

    Raises:
        InvalidArgumentError: The source is malformed. For text the message has line and column.
        ResourceExhaustedError: The module would take far more memory than the request's bytes.
    """
    match source.WhichOneof("form"):
        case "hlo_text":
            if len(source.hlo_text) > MAX_TEXT_CHARACTERS:
                raise ResourceExhaustedError(
                    f"HLO text may have {MAX_TEXT_CHARACTERS} characters, got "
                    f"{len(source.hlo_text)}",
                    hint="Send the serialized module.",
                )
            module = parse_module(source.hlo_text)
            return export_module(module), module.grid
        case "hlo_module":
            return read_message(source.hlo_module), ALONE
        case _:
            raise InvalidArgumentError("the request must hold a module, got none")


def converted(
    request: extension_pb2.ConvertModuleRequest, *, max_bytes: int, max_literal_bytes: int
) -> extension_pb2.ConvertModuleResponse:
    """Return a module in the requested form, with the grid of its header.

    Raises as `read_source` and `verify`; ResourceExhaustedError, before it is written, for one that
    takes more than `max_bytes`; InvalidArgumentError for an unknown form.
    """
    wanted = format_of(request.format)
    proto, grid = read_source(request.module)
    module = import_module(proto, max_literal_bytes=max_literal_bytes)
    verify(module)
    size = printed_bytes(module, wanted)
    if size > max_bytes:
        raise ResourceExhaustedError(
            f"a message may take {max_bytes} bytes, got a module that takes about {size} in the "
            f"form {wanted.name}"
        )
    if wanted is DumpFormat.PROTO:
        written: bytes = export_module(module).SerializeToString(deterministic=True)
    else:
        written = PRINTERS[wanted](module).encode()
    return extension_pb2.ConvertModuleResponse(
        module=written,
        num_replicas=grid.replicas,
        num_partitions=grid.partitions,
    )


def read_message(data: bytes) -> hlo_pb2.HloModuleProto:
    """The module in serialized bytes of an HloModuleProto or an HloProto.

    Raises InvalidArgumentError for others, and as `check_parse_size`.
    """
    # Field 1 is the name of an HloModuleProto and the module of an HloProto, so at most one reading
    # has computations.
    bare = _parsed(hlo_pb2.HloModuleProto, data)
    if bare is not None and bare.computations:
        return bare
    wrapped = _parsed(hlo_pb2.HloProto, data)
    if wrapped is None or not wrapped.hlo_module.computations:
        raise InvalidArgumentError(
            "a module must be a serialized HloModuleProto or HloProto with computations, got "
            f"{len(data)} bytes that are neither"
        )
    return wrapped.hlo_module


def _parsed(kind: type[M], data: bytes) -> M | None:
    check_parse_size(kind, data)
    try:
        return kind.FromString(data)
    except DecodeError:
        return None
