"""Health and reflection, queried as by load balancers and tools."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.fault.plain import until
from xla_contract.descriptors import EXTENSION_NAME, EXTENSION_RPCS, RPCS, SERVICE_NAME, rpcs_of
from xla_server.rpc.health_check import health_fault
from xla_server.rpc.methods import health_and_reflection
from xla_server.rpc.methods.health_and_reflection import Discovery
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.threads.pools import Pools, PoolSizes

Question = reflection_pb2.ServerReflectionRequest
Status = health_pb2.HealthCheckResponse


class Served:
    """A server of health and reflection alone, with one thread for health."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._server = grpc.server(self._threads)
        pools = Pools(PoolSizes())
        self.expected, self.silences = pools.expected, pools.silences
        self.discovery = Discovery(self._server, pools, Gate())
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self.channel = grpc.insecure_channel(self.target)

    def health(self, service: str) -> Any:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(self.channel).Check(request, timeout=10).status

    def reflect(self, *questions: Any) -> list[Any]:
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        return list(stub.ServerReflectionInfo(iter(questions), timeout=10))

    def close(self) -> None:
        self.channel.close()
        self._server.stop(None).wait()
        self.discovery.close()
        self._threads.shutdown()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


@pytest.mark.parametrize("service", ["", SERVICE_NAME, EXTENSION_NAME])
def test_health_is_known_from_serving_to_draining(served: Served, service: str) -> None:
    if service:  # For the server as a whole, grpc answers SERVING as soon as it answers.
        with pytest.raises(grpc.RpcError) as caught:
            served.health(service)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert f"one of this server's, got '{service}'" in error.details()
    assert health_fault(served.target, 10)
    served.discovery.set_serving()
    assert served.health(service) == Status.SERVING
    assert not health_fault(served.target, 10)
    served.discovery.set_draining()
    assert served.health(service) == Status.NOT_SERVING
    assert health_fault(served.target, 10)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("grpc.health.v1.Health/Check", "grpc.health.v1.HealthCheckRequest"),
        ("grpc.health.v1.Health/Watch", "grpc.health.v1.HealthCheckRequest"),
        (
            "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            "grpc.reflection.v1alpha.ServerReflectionRequest",
        ),
    ],
)
def test_bytes_that_are_no_question_are_refused(
    served: Served, path: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        next(served.channel.stream_stream(f"/{path}")(iter([b"\xff"]), timeout=10))
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    name = path.rpartition("/")[2]
    assert f"{name}: the request must be a {message} message, got 1 bytes" in error.details()
    assert not caplog.records


@pytest.mark.parametrize("name", ["Check", "Watch"])
def test_questions_of_health_that_do_not_come_are_known(served: Served, name: str) -> None:
    is_over = threading.Event()

    def silence() -> Iterator[bytes]:
        is_over.wait(100)
        yield from ()

    call = served.channel.stream_stream(f"/grpc.health.v1.Health/{name}")(silence(), timeout=10)
    until(lambda: len(served.expected.events) == 1)
    is_over.set()
    assert call.code() is grpc.StatusCode.UNIMPLEMENTED
    assert not served.expected.events


def test_health_is_reported_as_it_changes(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    watched = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE_NAME), timeout=10)
    assert next(watched).status == Status.SERVICE_UNKNOWN
    served.discovery.set_serving()
    assert next(watched).status == Status.SERVING
    served.discovery.set_draining()
    assert next(watched).status == Status.NOT_SERVING
    watched.cancel()


def test_an_address_without_listener_is_not_healthy(served: Served) -> None:
    assert health_fault("unix:/nowhere", 0.5)


def test_no_server_is_found_healthy_in_no_time(served: Served) -> None:
    served.discovery.set_serving()
    for _ in range(20):
        assert health_fault(served.target, 0)
    assert health_fault(served.target, -1)
    assert not health_fault(served.target, 10)


def test_the_services_are_listed(served: Served) -> None:
    (answer,) = served.reflect(Question(list_services=""))
    names = [each.name for each in answer.list_services_response.service]
    assert sorted(names) == sorted(
        [
            SERVICE_NAME,
            EXTENSION_NAME,
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    )


def test_their_files_are_all_a_tool_needs(served: Served) -> None:
    """A stranger makes the services of what the server tells of each file, and of no other."""
    names = [SERVICE_NAME, EXTENSION_NAME, "grpc.health.v1.Health"]
    answers = served.reflect(*[Question(file_containing_symbol=name) for name in names])
    files: dict[str, Any] = {}
    for answer in answers:
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file
    pool = DescriptorPool()
    while files:
        name = next(
            name
            for name, file in files.items()
            if not any(dependency in files for dependency in file.dependency)
        )
        pool.Add(files.pop(name))
    for name, rpcs in ((SERVICE_NAME, RPCS), (EXTENSION_NAME, EXTENSION_RPCS)):
        found = pool.FindServiceByName(name)
        assert [method.name for method in found.methods] == [rpc.name for rpc in rpcs]
        assert len(rpcs_of(found)) == len(rpcs)


def test_what_there_is_not_is_not_found(served: Served) -> None:
    (answer,) = served.reflect(Question(file_containing_symbol="xla.NoService"))
    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_open_streams_of_reflection_do_not_hold_up_health(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    served.discovery.set_serving()
    is_over = threading.Event()

    def questions() -> Iterator[Any]:
        yield Question(list_services="")
        is_over.wait(100)

    calls = [
        stub.ServerReflectionInfo(questions(), timeout=10)
        for _ in range(health_and_reflection._REFLECTION_THREADS)
    ]
    assert all(next(call).HasField("list_services_response") for call in calls)
    assert served.health("") == Status.SERVING
    is_over.set()


def test_streams_of_reflection_without_a_question_hold_no_thread(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    is_over = threading.Event()

    def silence() -> Iterator[Any]:
        is_over.wait(100)
        yield from ()

    count = health_and_reflection._REFLECTION_THREADS
    calls = [stub.ServerReflectionInfo(silence(), timeout=100) for _ in range(count)]
    until(lambda: len(served.expected.events) == count)
    assert served.reflect(Question(list_services=""))
    is_over.set()
    assert not [answer for call in calls for answer in call]


def test_a_stream_of_reflection_that_is_silent_can_be_ended(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    is_over = threading.Event()

    def questions() -> Iterator[Any]:
        yield Question(list_services="")
        is_over.wait(100)

    call = stub.ServerReflectionInfo(questions(), timeout=10)
    assert next(call).HasField("list_services_response")
    [silence] = served.silences
    until(lambda: bool(silence.since))
    assert silence.has_begun
    assert silence.is_idle()
    assert silence.end(time.monotonic(), "memory is short")
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.CANCELLED
    is_over.set()
    until(lambda: not served.silences)
