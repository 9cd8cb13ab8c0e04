"""A client made of the .proto files alone: plain protoc output and grpcio, nothing of ours."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xla_client

ROOT = Path(__file__).parents[3]
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

EXTENSION_CLIENT = r"""
import struct
import sys
import threading
import zlib

import grpc
from xla import hlo_pb2, xla_data_pb2, xla_pb2, xla_service_pb2_grpc
from xla import xla_extension_pb2 as ext
from xla import xla_extension_pb2_grpc

vector = xla_data_pb2.ShapeProto(
    element_type=xla_data_pb2.F32,
    dimensions=[2],
    layout=xla_data_pb2.LayoutProto(minor_to_major=[0]),
)
token = xla_data_pb2.ShapeProto(element_type=xla_data_pb2.TOKEN)
fed = xla_data_pb2.ShapeProto(element_type=xla_data_pb2.TUPLE, tuple_shapes=[vector, token])


def program(name, parameters, *instructions):
    shape = xla_data_pb2.ProgramShapeProto(
        parameters=[vector] * parameters, result=vector, parameter_names=["x"] * parameters
    )
    computation = hlo_pb2.HloComputationProto(name="main", id=1, root_id=len(instructions))
    for number, (opcode, shape_of, operands, fields) in enumerate(instructions, 1):
        computation.instructions.add(
            name=f"{opcode}.{number}",
            opcode=opcode,
            shape=shape_of,
            id=number,
            operand_ids=operands,
            **fields,
        )
    return hlo_pb2.HloModuleProto(
        name=name,
        entry_computation_name="main",
        entry_computation_id=1,
        host_program_shape=shape,
        computations=[computation],
    )


parameter = ("parameter", vector, [], {"parameter_number": 0})
double = program("double", 1, parameter, ("add", vector, [1, 1], {}))
relay = program(
    "relay",
    0,
    ("after-all", token, [], {}),
    ("infeed", fed, [1], {}),
    ("get-tuple-element", vector, [2], {"tuple_index": 0}),
    ("get-tuple-element", token, [2], {"tuple_index": 1}),
    ("outfeed", token, [3, 4], {"outfeed_shape": vector}),
    ("add", vector, [3, 3], {}),
)
relay.computations[0].root_id = 6
ONE_TWO = struct.pack("<2f", 1, 2)


def floats(data):
    return list(struct.unpack("<2f", data))


with grpc.insecure_channel(sys.argv[1]) as channel:
    xla = xla_service_pb2_grpc.XlaServiceStub(channel)
    more = xla_extension_pb2_grpc.XlaExtensionServiceStub(channel)
    session = more.OpenSession(ext.OpenSessionRequest(client="plain"))
    mine = [("xla-session", session.token)]

    def compiled(module):
        shapes = module.host_program_shape.parameters
        request = xla_pb2.CompileRequest(computation=module, input_shape_with_layout=shapes)
        return xla.Compile(request, metadata=mine).handle

    # Two steps in one round trip, with a value that is sent along and one that comes back.
    executable, value = compiled(double), ext.Value(shape=vector, data=ONE_TWO)
    first = ext.RunStep(executable=executable, arguments=[ext.RunArgument(value=value)])
    second = ext.RunStep(
        executable=executable,
        arguments=[ext.RunArgument(result=ext.StepResult(step=0))],
        output=ext.RunOutput(keep=True, fetch_bytes=8),
    )
    ran = more.Run(ext.RunRequest(steps=[first, second]), metadata=mine).results[1]
    assert floats(ran.value.data) == [4, 8]

    # A launched run whose result is named before it is there.
    first.output.keep = True
    launched = more.Launch(
        ext.LaunchRequest(run=ext.RunRequest(steps=[first])), metadata=mine
    )
    (coming,) = launched.outputs[0].outputs
    execute = xla_pb2.ExecuteRequest(handle=executable, arguments=[coming])
    output = xla.Execute(execute, metadata=mine).output
    wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
    xla.WaitForExecution(wait, metadata=mine)

    # Chunks up and down.
    start = ext.UploadStart(upload_id=b"one", shape=vector)
    chunk = ext.Chunk(data=ONE_TWO, checksum=zlib.crc32(ONE_TWO))
    requests = [ext.UploadRequest(start=start), ext.UploadRequest(chunk=chunk)]
    uploaded = more.Upload(iter(requests), metadata=mine).data
    chunks = list(more.Download(ext.DownloadRequest(data=uploaded), metadata=mine))
    data = b"".join(each.chunk.data for each in chunks)
    assert data == ONE_TWO and chunks[-1].chunk.checksum == zlib.crc32(ONE_TWO)

    # A program between an infeed and an outfeed.
    step = ext.RunStep(executable=compiled(relay), output=ext.RunOutput(keep=True))
    run = ext.LaunchRequest(run=ext.RunRequest(steps=[step]))
    relayed = more.Launch(run, metadata=mine)
    waiters = []
    while not waiters:
        waiters = more.DescribeFeeds(ext.DescribeFeedsRequest(), metadata=mine).infeed.waiters
    assert waiters[0].execution == relayed.execution and waiters[0].instruction == "infeed.2"
    items = ext.FeedItems(items=[ext.FeedItem(sequence=1, value=value)])
    requests = [
        ext.InfeedRequest(start=ext.InfeedStart()),
        ext.InfeedRequest(items=items),
        ext.InfeedRequest(flush=ext.InfeedFlush()),
    ]
    responses = list(more.Infeed(iter(requests), metadata=mine))
    assert responses[0].started.next_sequence == 1 and responses[-1].progress.received == 1
    over = threading.Event()

    def outfeed_requests():
        credit = ext.Credit(items=1, bytes=8)
        yield ext.OutfeedRequest(start=ext.OutfeedStart(credit=credit))
        over.wait()
        yield ext.OutfeedRequest(progress=ext.OutfeedProgress(acknowledged=1))

    taken = more.Outfeed(outfeed_requests(), metadata=mine)
    assert next(taken).started.next_sequence == 1
    (item,) = next(taken).items.items
    assert (item.sequence, floats(item.value.data)) == (1, [1, 2])
    over.set()
    assert list(taken) == []

    # Calls on a stream, one of which fails by itself.
    shape_of = xla_pb2.GetShapeRequest(data=output).SerializeToString()
    calls = [
        ext.ConverseRequest(id=1, method="xla.XlaService/GetShape", request=shape_of),
        ext.ConverseRequest(id=2, method="xla.XlaService/Nothing"),
    ]
    answers = {each.id: each for each in more.Converse(iter(calls), metadata=mine)}
    got = xla_pb2.GetShapeResponse.FromString(answers[1].response).shape
    assert (got.element_type, list(got.dimensions)) == (xla_data_pb2.F32, [2])
    assert answers[2].status
    described = more.DescribeHandles(ext.DescribeHandlesRequest(), metadata=mine)
    assert output.handle in [each.handle for each in described.handles]
    more.CloseSession(ext.CloseSessionRequest(), metadata=mine)
assert not any(name.startswith(("xla_client", "xla_contract")) for name in sys.modules)
print("well")
"""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what protoc makes of the .proto files."""
    pytest.importorskip("grpc_tools")
    made = tmp_path_factory.mktemp("stubs")
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", "-I", "protos"),
            *(f"--python_out={made}", f"--grpc_python_out={made}"),
            *(f"xla/{name}" for name in FILES),
        ],
        cwd=ROOT,
        check=True,
    )
    return made


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with xla_client.Local(insecure=True) as client:
        yield client.target


@pytest.mark.parametrize(
    ("program", "printed"), [(CLIENT, "[12.0, 24.0, 36.0]"), (EXTENSION_CLIENT, "well")]
)
def test_protoc_output_is_a_client(stubs: Path, target: str, program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, target],
        cwd=stubs,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == printed
