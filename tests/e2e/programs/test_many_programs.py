"""A handle names a program, whose code is a cache: plain clients free nothing and go on.

`make programs` compiles 10,000 of them; here the limits are lowered instead.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e.process import Raw, refused, start_server
from xla_client import Builder, Shape
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2

COUNT = int(os.environ.get("PROGRAMS", "40"))
LIMIT = "8" if COUNT < 1000 else "1024"
ONES = np.ones(4, np.float32)


@pytest.fixture(scope="module", params=["interpreter", "cpu"])
def raw(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    directory = tmp_path_factory.mktemp("server")
    flags = ("--platform", request.param, "--max-executables", LIMIT)
    cache = ("--compilation-cache-dir", str(directory / "kernels"))
    with start_server(directory, *flags, *cache) as running:
        client = Raw(running.address)
        yield client
        client.close()


def adding(number: int) -> hlo_pb2.HloModuleProto:
    """x + number."""
    builder = Builder(f"adding_{number}")
    x = builder.parameter(0, Shape.parse("f32[4]"))
    return builder.build(x + builder.constant(np.float32(number))).proto


def executed(
    raw: Raw, handle: xla_data_pb2.ExecutionHandle, argument: xla_data_pb2.GlobalDataHandle
) -> xla_pb2.ExecuteResponse:
    request = xla_pb2.ExecuteRequest(handle=handle, arguments=[argument])
    response: xla_pb2.ExecuteResponse = raw.Execute(request)
    return response


def test_a_client_that_frees_nothing_goes_on(raw: Raw) -> None:
    handles = [raw.compile(adding(number)) for number in range(COUNT)]
    argument = raw.upload(ONES)
    # Forwards, each of them is the one whose code went longest ago.
    for number in range(0, COUNT, max(1, COUNT // 500)):
        output = executed(raw, handles[number], argument).output
        assert raw.download(output).f32s == [1 + number] * 4


def test_many_callers_share_the_code_that_comes_back(raw: Raw) -> None:
    handles = [raw.compile(adding(number)) for number in range(20)]
    argument = raw.upload(ONES)

    def run(number: int) -> bool:
        output = executed(raw, handles[number % 20], argument).output
        return list(raw.download(output).f32s) == [1 + number % 20] * 4

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(120)))


def test_a_program_with_a_state_keeps_it(raw: Raw) -> None:
    handle = raw.compile(stateful())

    def drawn() -> list[int]:
        output = raw.Execute(xla_pb2.ExecuteRequest(handle=handle)).output
        return list(raw.download(output).u64s)

    first = drawn()
    for number in range(20):
        raw.compile(adding(number))
    later = drawn()
    assert later != first
    assert later[0] == first[0] + 5


def stateful() -> hlo_pb2.HloModuleProto:
    """The state of a generator, which moves on by 5."""
    builder = Builder("drawing")
    builder.constant(np.zeros(2, np.uint64))
    module = builder.build(builder.constant(np.zeros(2, np.uint64))).proto
    (computation,) = module.computations
    root = computation.instructions[-1]
    root.opcode = "rng-get-and-update-state"
    root.ClearField("literal")
    root.delta = 5
    return module


def test_the_modules_of_programs_have_a_limit_of_bytes(tmp_path) -> None:
    flags = ("--platform", "interpreter", "--max-program-bytes", "100000")
    with start_server(tmp_path, *flags) as running:
        client = Raw(running.address)
        handles = []

        def fill() -> None:
            handles.extend(client.compile(adding(number)) for number in range(100))

        message = refused(StatusCode.RESOURCE_EXHAUSTED, fill)
        assert "of the 100000 bytes of programs" in message
        assert len(handles) > 5
        client.Unregister(
            xla_pb2.UnregisterRequest(
                data=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in handles]
            )
        )
        client.compile(adding(1000))
        client.close()
