"""A client made of the .proto files alone: plain protoc output and grpcio, nothing of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

import xla_client

ROOT = Path(__file__).parents[2]
FILES = sorted(path.name for path in (ROOT / "protos" / "xla").glob("*.proto"))

CLIENT = r"""
import sys

import grpc
from xla import hlo_pb2, xla_data_pb2, xla_pb2, xla_service_pb2_grpc


def f32(*dimensions):
    layout = xla_data_pb2.LayoutProto(minor_to_major=range(len(dimensions))[::-1])
    return xla_data_pb2.ShapeProto(
        element_type=xla_data_pb2.F32, dimensions=dimensions, layout=layout
    )


def instruction(number, opcode, shape, operands=(), **fields):
    return hlo_pb2.HloInstructionProto(
        name=f"{opcode}.{number}",
        opcode=opcode,
        shape=shape,
        id=number,
        operand_ids=operands,
        **fields,
    )


scalar, vector = f32(), f32(3)
program_shape = xla_data_pb2.ProgramShapeProto(
    parameters=[scalar, vector, vector], result=vector, parameter_names=["alpha", "x", "y"]
)
instructions = [
    instruction(1, "parameter", scalar, parameter_number=0),
    instruction(2, "parameter", vector, parameter_number=1),
    instruction(3, "parameter", vector, parameter_number=2),
    instruction(4, "broadcast", vector, [1]),
    instruction(5, "multiply", vector, [4, 2]),
    instruction(6, "add", vector, [5, 3]),
]
module = hlo_pb2.HloModuleProto(
    name="axpy",
    entry_computation_name="main",
    entry_computation_id=1,
    host_program_shape=program_shape,
    computations=[
        hlo_pb2.HloComputationProto(name="main", id=1, root_id=6, instructions=instructions)
    ],
)
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = xla_service_pb2_grpc.XlaServiceStub(channel)
    compiled = stub.Compile(
        xla_pb2.CompileRequest(
            computation=module, input_shape_with_layout=program_shape.parameters
        )
    )
    literals = [
        xla_data_pb2.LiteralProto(shape=shape, f32s=values)
        for shape, values in ((scalar, [2]), (vector, [1, 2, 3]), (vector, [10, 20, 30]))
    ]
    arguments = [
        stub.TransferToServer(xla_pb2.TransferToServerRequest(literal=literal)).data
        for literal in literals
    ]
    executed = stub.Execute(xla_pb2.ExecuteRequest(handle=compiled.handle, arguments=arguments))
    fetched = stub.TransferToClient(xla_pb2.TransferToClientRequest(data=executed.output))
    stub.Unregister(xla_pb2.UnregisterRequest(data=[*arguments, executed.output]))
assert not any(name.startswith(("xla_client", "xla_contract")) for name in sys.modules)
print(list(fetched.literal.f32s))
"""


def test_protoc_output_compiles_and_executes(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", "-I", "protos"),
            *(f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}"),
            *(f"xla/{name}" for name in FILES),
        ],
        cwd=ROOT,
        check=True,
    )
    with xla_client.Local() as client:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, client.target],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[12.0, 24.0, 36.0]"
