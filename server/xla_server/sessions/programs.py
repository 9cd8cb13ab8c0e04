"""What a program is compiled for: the checks on its options and the layouts of its signature."""

import dataclasses
import hashlib
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import program_shape_from_proto, shape_from_proto
from xla_server.backends.backend import Device
from xla_server.backends.options import CompileOptions, DumpOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.sessions.compile_options import compile_options


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program in wire form, what it is compiled with, and the key of all."""

    data: bytes
    """The serialized module."""
    entry: ProgramShape
    seed: int
    options: CompileOptions
    key: bytes
    proto: hlo_pb2.HloModuleProto | None = None
    """The module as it came, which spares reading it once more."""

    @property
    def byte_size(self) -> int:
        """Bytes of the module."""
        return len(self.data)

    def import_module(self, max_literal_bytes: int) -> HloModule:
        """The module, read and checked; raises as `ir.importer.import_module` does."""
        proto = self.proto
        if proto is None:
            proto = hlo_pb2.HloModuleProto.FromString(self.data)
        return import_module(proto, max_literal_bytes=max_literal_bytes)

    def kept(self) -> "Program":
        """The program as it is kept, to be compiled again: without what was read of it.

        Only the first compilation writes a dump, unless executions write their profiles into it.
        """
        options = self.options
        if not options.is_profiled:
            options = dataclasses.replace(options, dump=DumpOptions())
        return dataclasses.replace(self, proto=None, options=options)


def require_program(
    proto: hlo_pb2.HloModuleProto | None,
    absent_error: type[XlaError] = InvalidArgumentError,
) -> hlo_pb2.HloModuleProto:
    """The program of a request; `absent_error` when it or its host_program_shape is absent."""
    if proto is None:
        raise absent_error("the request must hold a computation, got none")
    if not proto.HasField("host_program_shape"):
        raise absent_error(
            f"the computation must say its host_program_shape, got none in {proto.name!r:.200}"
        )
    return proto


def prepare_program(
    proto: hlo_pb2.HloModuleProto,
    options: xla_pb2.ExecutionOptions,
    arguments: Sequence[Shape] | None,
    device: Device,
) -> Program:
    """The program with the layouts of `arguments` and of the options' result shape.

    Without `arguments` the parameters are those of the module's host_program_shape.

    Raises InvalidArgumentError when there is not one compatible argument per parameter, when the
    result shape is not compatible, when the device assignment does not name `device`, and as
    `compile_options`; UnimplementedError for several replicas or partitions.
    """
    _check_placement(proto, options, device)
    declared = program_shape_from_proto(proto.host_program_shape)
    entry = ProgramShape(
        _parameters(declared, arguments), _result(declared, options), declared.parameter_names
    )
    data = proto.SerializeToString(deterministic=True)
    key = _key(data, options, entry)
    return Program(data, entry, options.seed, compile_options(options), key, proto)


def _parameters(declared: ProgramShape, arguments: Sequence[Shape] | None) -> tuple[Shape, ...]:
    if arguments is None:
        arguments = declared.parameters
    if len(arguments) != len(declared.parameters):
        raise InvalidArgumentError(
            f"there must be one argument per parameter, got {len(arguments)} for "
            f"{len(declared.parameters)} parameters of {declared}"
        )
    for number, (argument, parameter) in enumerate(
        zip(arguments, declared.parameters, strict=True)
    ):
        if not argument.compatible(parameter):
            raise InvalidArgumentError(
                f"argument {number} must have the shape of its parameter, got {argument} for "
                f"{parameter}"
            )
    return tuple(argument.with_default_layout() for argument in arguments)


def _result(declared: ProgramShape, options: xla_pb2.ExecutionOptions) -> Shape:
    if not options.HasField("shape_with_output_layout"):
        return declared.result.without_layout().with_default_layout()
    wanted = shape_from_proto(options.shape_with_output_layout)
    if not wanted.compatible(declared.result):
        raise InvalidArgumentError(
            "shape_with_output_layout must be compatible with the program's result, got "
            f"{wanted} for {declared.result}"
        )
    return wanted.with_default_layout()


def _check_placement(
    proto: hlo_pb2.HloModuleProto, options: xla_pb2.ExecutionOptions, device: Device
) -> None:
    for name, count in (
        ("num_replicas", options.num_replicas),
        ("num_partitions", options.num_partitions),
    ):
        if count < 0:
            raise InvalidArgumentError(f"{name} must not be negative, got {count}")
        if count > 1:
            raise UnimplementedError(
                f"programs run as one replica of one partition on this server, got {name} = {count}"
            )
    for holder, name in ((proto, "the module's"), (options, "the options'")):
        if holder.HasField("device_assignment"):
            _check_assignment(holder.device_assignment, name, device)


def _check_assignment(
    assignment: xla_data_pb2.DeviceAssignmentProto, name: str, device: Device
) -> None:
    columns = [tuple(part.replica_device_ids) for part in assignment.computation_devices]
    if len(columns) != assignment.computation_count or any(
        len(column) != assignment.replica_count for column in columns
    ):
        raise InvalidArgumentError(
            f"{name} device_assignment must have replica_count ids for each of computation_count "
            f"computations, got replica_count {assignment.replica_count}, computation_count "
            f"{assignment.computation_count} and ids for {[len(column) for column in columns]}"
        )
    if assignment.replica_count > 1 or assignment.computation_count > 1:
        raise UnimplementedError(
            "programs run as one replica of one partition on this server, got "
            f"{name} device_assignment for {assignment.replica_count} replicas of "
            f"{assignment.computation_count} partitions"
        )
    if columns and columns[0] and columns[0][0] != device.ordinal:
        raise InvalidArgumentError(
            f"{name} device_assignment must name the device the program runs on, got "
            f"{columns[0][0]} for device {device.ordinal}"
        )


def _key(data: bytes, options: xla_pb2.ExecutionOptions, entry: ProgramShape) -> bytes:
    relevant = xla_pb2.ExecutionOptions()
    relevant.CopyFrom(options)
    for field in ("device_handles", "launch_id", "shape_with_output_layout", "device_assignment"):
        relevant.ClearField(field)
    digest = hashlib.sha256()
    for part in (
        data,
        relevant.SerializeToString(deterministic=True),
        repr(entry).encode(),
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
