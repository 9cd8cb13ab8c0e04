"""Decoding of programs and of requests to compile them."""

import functools
from collections.abc import Iterator

from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.wire.shape_proto import program_shape_from_proto
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.rpc.decode.common import shape_in
from xla_server.rpc.decode.compile_options import compile_options
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.programs.compile_request import CompileRequest, ProgramSource


def read_program(
    proto: hlo_pb2.HloModuleProto | None, absent_error: type[XlaError] = InvalidArgumentError
) -> ProgramSource:
    """Decode a program.

    Raises `absent_error` if it or its host_program_shape is absent, InvalidArgumentError if that
    is malformed.
    """
    if proto is None:
        raise absent_error("the request must hold a computation, got none")
    if not proto.HasField("host_program_shape"):
        raise absent_error(
            f"the computation must say its host_program_shape, got none in {proto.name!r:.200}"
        )
    return ProgramSource(
        proto.name,
        program_shape_from_proto(proto.host_program_shape),
        functools.partial(_load, proto),
        functools.partial(proto.SerializeToString, deterministic=True),
    )


def read_compile_request(
    proto: hlo_pb2.HloModuleProto | None,
    options: xla_pb2.ExecutionOptions,
    absent_error: type[XlaError] = InvalidArgumentError,
) -> CompileRequest:
    """Decode a program with its options.

    Raises as `read_program` and `compile_options`, InvalidArgumentError for a device assignment
    that is malformed, UnimplementedError for several replicas or partitions.
    """
    source = read_program(proto, absent_error)
    assert proto is not None
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
    assigned = [*_assigned(proto, "the module's"), *_assigned(options, "the options'")]
    return CompileRequest(
        source,
        shape_in(options, "shape_with_output_layout"),
        options.seed,
        compile_options(options),
        _relevant(options),
        tuple(assigned),
        len(options.device_handles),
    )


def read_devices(options: xla_pb2.ExecutionOptions) -> tuple[DeviceHandle, ...]:
    """Return the devices that a program is to run on."""
    return tuple(DeviceHandle(each.handle, each.device_count) for each in options.device_handles)


def _load(proto: hlo_pb2.HloModuleProto, max_literal_bytes: int) -> HloModule:
    return import_module(proto, max_literal_bytes=max_literal_bytes)


def _assigned(
    owner: hlo_pb2.HloModuleProto | xla_pb2.ExecutionOptions, name: str
) -> Iterator[tuple[str, int]]:
    """Yield the device that a device assignment names, if there is one."""
    if not owner.HasField("device_assignment"):
        return
    assignment: xla_data_pb2.DeviceAssignmentProto = owner.device_assignment
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
    if columns and columns[0]:
        yield name, columns[0][0]


def _relevant(options: xla_pb2.ExecutionOptions) -> bytes:
    """Return the options that code depends on, serialized."""
    relevant = xla_pb2.ExecutionOptions()
    relevant.CopyFrom(options)
    # They say where a program runs, or repeat its signature.
    for field in ("device_handles", "launch_id", "shape_with_output_layout", "device_assignment"):
        relevant.ClearField(field)
    return relevant.SerializeToString(deterministic=True)
