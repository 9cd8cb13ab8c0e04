"""Decoding of programs and of requests to compile them."""

import functools
import itertools

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.wire.shape_proto import program_shape_from_proto
from xla_server.ir.importer import import_module
from xla_server.passes.partitioning.markers import stated_partitions
from xla_server.rpc.decode.common import shape_in
from xla_server.rpc.decode.compile_options import compile_options
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.programs.compile_request import CompileRequest, ProgramSource
from xla_server.sessions.programs.device_assignment import DeviceAssignment, stated_grid


def read_program(
    proto: hlo_pb2.HloModuleProto | None, absent_error: type[XlaError] = InvalidArgumentError
) -> ProgramSource:
    """Decode a program.

    Raises `absent_error` if the program or its host_program_shape is absent, InvalidArgumentError
    if the shape is malformed.
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
        lambda max_bytes: import_module(proto, max_literal_bytes=max_bytes),
        functools.partial(proto.SerializeToString, deterministic=True),
    )


def read_compile_request(
    proto: hlo_pb2.HloModuleProto | None,
    options: xla_pb2.ExecutionOptions,
    absent_error: type[XlaError] = InvalidArgumentError,
    *,
    header: DeviceGrid = ALONE,
) -> CompileRequest:
    """Decode a program with its options.

    If neither options nor device assignments state its replicas and partitions, they are those of
    the `header` of its text, or the partitions of the mesh of its manual regions.

    Raises as `read_program` and `compile_options`, InvalidArgumentError for counts of replicas or
    partitions that are negative, for a device assignment that is malformed, and if these
    contradict each other.
    """
    source = read_program(proto, absent_error)
    assert proto is not None
    for name, count in (
        ("num_replicas", options.num_replicas),
        ("num_partitions", options.num_partitions),
    ):
        if count < 0:
            raise InvalidArgumentError(f"{name} must not be negative, got {count}")
    stated = [read_assignment(proto, "the module's"), read_assignment(options, "the options'")]
    assignments = tuple(each for each in stated if each is not None)
    if options.num_replicas or options.num_partitions or assignments:
        grid = stated_grid(options.num_replicas, options.num_partitions, assignments)
    else:
        grid = DeviceGrid(1, stated_partitions(proto)) if header == ALONE else header
    return CompileRequest(
        source,
        shape_in(options, "shape_with_output_layout"),
        compile_options(options),
        _relevant(options),
        grid,
        assignments,
        len(options.device_handles),
    )


def read_devices(options: xla_pb2.ExecutionOptions) -> tuple[DeviceHandle, ...]:
    """Return the devices that the options request for a program."""
    return tuple(DeviceHandle(each.handle, each.device_count) for each in options.device_handles)


def read_assignment(
    owner: "hlo_pb2.HloModuleProto | xla_pb2.ExecutionOptions | "
    "extension_pb2.ExecuteShardedRequest",
    name: str,
) -> DeviceAssignment | None:
    """Return the device assignment of a message, which `name` names; None if it states none.

    Raises InvalidArgumentError if its counts are not those of its ids.
    """
    if not owner.HasField("device_assignment"):
        return None
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
    if not columns or not columns[0]:
        return None
    grid = DeviceGrid(assignment.replica_count, assignment.computation_count)
    return DeviceAssignment(name, grid, tuple(itertools.chain(*zip(*columns, strict=True))))


def _relevant(options: xla_pb2.ExecutionOptions) -> bytes:
    """Return the options that code depends on, serialized."""
    relevant = xla_pb2.ExecutionOptions()
    relevant.CopyFrom(options)
    # These options state devices, or repeat the signature or the grid.
    for field in (
        *("device_handles", "launch_id", "shape_with_output_layout", "device_assignment"),
        *("num_replicas", "num_partitions"),
    ):
        relevant.ClearField(field)
    return relevant.SerializeToString(deterministic=True)
