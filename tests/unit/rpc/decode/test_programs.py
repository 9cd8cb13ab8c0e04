"""Decoding of programs."""

import pytest

from tests.device_programs import device_program
from tests.unit.sessions.sample_runs import ADD, program
from xla_contract.errors import InternalError, InvalidArgumentError
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_server.rpc.decode.programs import read_compile_request, read_program


def test_a_request_must_hold_a_program_that_says_its_signature() -> None:
    proto = program(ADD).proto
    assert read_program(proto).name == "add"
    with pytest.raises(InvalidArgumentError, match=r"^the request must hold a computation, got no"):
        read_program(None)
    with pytest.raises(InternalError, match="must hold a computation"):
        read_program(None, InternalError)
    proto.ClearField("host_program_shape")
    rule = r"^the computation must say its host_program_shape, got none in 'add'$"
    for error in (InvalidArgumentError, InternalError):
        with pytest.raises(error, match=rule):
            read_program(proto, error)
    # A name is quoted as far as it can be read.
    with pytest.raises(InvalidArgumentError) as caught:
        read_program(hlo_pb2.HloModuleProto(name="n" * 10_000))
    assert len(caught.value.message) < 300


def test_the_grid_is_what_options_say_else_assignments_else_header_else_mesh() -> None:
    cases = {
        ("psum_scatter_dim1_axis_b", 0, ALONE): DeviceGrid(1, 8),
        ("psum_scatter_dim1_axis_b", 0, DeviceGrid(2, 4)): DeviceGrid(2, 4),
        ("psum_scatter_dim1_axis_b", 1, ALONE): ALONE,
        # It has a mesh, and no region.
        ("jit_elementwise_sharded", 0, ALONE): ALONE,
    }
    for (name, partitions, header), grid in cases.items():
        proto = hlo_pb2.HloModuleProto.FromString(device_program(name).lowered)
        options = xla_pb2.ExecutionOptions(num_partitions=partitions)
        assert read_compile_request(proto, options, header=header).grid == grid
    proto.device_assignment.replica_count = proto.device_assignment.computation_count = 1
    proto.device_assignment.computation_devices.add(replica_device_ids=[0])
    options.ClearField("num_partitions")
    assert read_compile_request(proto, options, header=DeviceGrid(2, 4)).grid == ALONE
