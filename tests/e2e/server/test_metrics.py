"""Metrics for Prometheus: the state of a server, and how its calls ended."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e import modules
from tests.e2e.feed_programs import relay
from tests.e2e.process import Raw, ServerProcess, refused, start_server
from tests.fault.plain import until
from xla_contract.stubs import xla_pb2

_TOKEN = "T" * 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    tokens = directory / "tokens"
    tokens.write_text(f"alice user {_TOKEN}")
    flags = ("--platform", "interpreter", "--token-file", str(tokens))
    metrics = ("--metrics-listen", "127.0.0.1:0")
    with start_server(directory, *flags, *metrics, insecure=False) as running:
        yield running


def answer(server: ServerProcess, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.ready["metrics"], timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def metrics(server: ServerProcess) -> dict[str, float]:
    """The values by names with labels; every name has a line that says its type."""
    status, text = answer(server, "/metrics")
    assert status == 200
    lines = text.splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("#")}
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            bare = name.partition("{")[0]
            parts = {bare, *(bare.removesuffix(end) for end in ("_bucket", "_sum", "_count"))}
            assert typed & parts, line
            found[name] = float(value)
    return found


def handled(server: ServerProcess, kind: str, method: str, code: str = "OK") -> float:
    service, name = method.split("/")
    labels = f'grpc_method="{name}",grpc_service="xla.{service}",grpc_type="{kind}"'
    found = metrics(server)
    count = found.get(f'grpc_server_handled_total{{grpc_code="{code}",{labels}}}', 0)
    ended = found.get(f"grpc_server_handling_seconds_count{{{labels}}}", 0)
    assert ended >= count
    return count


def test_calls_of_each_kind_are_counted_by_their_statuses(server: ServerProcess) -> None:
    b = xc.Builder("double")
    x = b.parameter(0, "f32[3]")
    with xc.connect(server.address, token=_TOKEN) as client:
        run = client.compile(b.build(x + x))
        for _ in range(3):
            run.run([1, 2, 3])
        run.submit([1, 2, 3]).result()
        with client.device().infeed("f32[]") as feed:
            feed.send([1])
        with pytest.raises(xc.NotFoundError):
            client.adopt(5)
    assert handled(server, "unary", "XlaExtensionService/Run") == 3
    assert handled(server, "unary", "XlaService/WaitForExecution") == 1
    assert handled(server, "unary", "XlaService/GetShape", "NOT_FOUND") == 1
    assert handled(server, "bidi_stream", "XlaExtensionService/Infeed") == 1


def test_a_call_on_its_own_and_one_without_credentials(server: ServerProcess) -> None:
    raw = Raw(server.address)
    request = xla_pb2.GetDeviceHandlesRequest(device_count=1)
    refused(grpc.StatusCode.UNAUTHENTICATED, raw.GetDeviceHandles, request)
    metadata = (("authorization", f"Bearer {_TOKEN}"),)
    raw.GetDeviceHandles(request, metadata=metadata)
    nothing = xla_pb2.GetShapeRequest()
    refused(grpc.StatusCode.INVALID_ARGUMENT, raw.GetShape, nothing, metadata=metadata)
    item = xla_pb2.TransferToInfeedRequest(literal=modules.literal(np.float32(1)))
    raw.TransferToInfeed(item, metadata=metadata)
    wanted = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=modules.shape("f32[]"))

    def exceeds_its_deadline() -> float:
        # A deadline that passes before the call arrives, or is noticed later, counts no call yet.
        with pytest.raises(grpc.RpcError):
            raw.TransferFromOutfeed(wanted, metadata=metadata, timeout=0.1)
        return handled(server, "unary", "XlaService/TransferFromOutfeed", "DEADLINE_EXCEEDED")

    until(exceeds_its_deadline)
    raw.close()
    assert metrics(server)['xla_server_refused_calls_total{grpc_code="UNAUTHENTICATED"}'] == 1
    assert handled(server, "unary", "XlaService/GetDeviceHandles") == 1
    assert handled(server, "unary", "XlaService/GetDeviceHandles", "UNAUTHENTICATED") == 0
    assert handled(server, "unary", "XlaService/GetShape", "INVALID_ARGUMENT") == 1
    assert handled(server, "unary", "XlaService/TransferToInfeed") == 1


def test_the_state_of_the_server_with_limits_and_without_owners(server: ServerProcess) -> None:
    with xc.connect(server.address, token=_TOKEN) as client:
        value = client.to_device([1, 2, 3])
        found = metrics(server)
        value.delete()
    assert found["xla_server_devices"] == 1
    assert found["xla_server_sessions"] >= 1
    assert found["xla_server_sessions_limit"] == 4096
    assert found["xla_server_device_bytes"] >= 12
    assert found["xla_server_waiting_calls"] == 0
    assert found["xla_server_execution_wait_seconds_total"] == 0
    assert found["xla_server_draining"] == 0
    assert "alice" not in answer(server, "/metrics")[1]


def test_compilations_and_the_time_of_all_threads_are_counted(server: ServerProcess) -> None:
    def numbers() -> list[float]:
        found = metrics(server)
        names = "xla_server_compilations", "xla_server_compile_seconds", "process_cpu_seconds"
        return [found[f"{name}_total"] for name in names]

    b = xc.Builder("counted once")
    x = b.parameter(0, "f32[500,500]")
    program, before = b.build(x @ x), numbers()
    with xc.connect(server.address, token=_TOKEN) as client:
        for _ in range(2):
            run = client.compile(program)
            run.run(np.ones((500, 500), np.float32))
    compilations, seconds, processor = numbers()
    assert compilations == before[0] + 1
    assert seconds > before[1]
    assert processor > before[2]


def test_a_drain_is_seen(tmp_path: Path) -> None:
    flags = ("--platform", "interpreter", "--metrics-listen", "127.0.0.1:0")
    with start_server(tmp_path, *flags) as running, xc.connect(running.address) as client:
        waits = client.compile(relay(1)).submit()
        running.process.terminate()
        until(lambda: metrics(running)["xla_server_draining"])
        waits.cancel()
        assert running.process.wait(60) == 0


def test_an_address_in_use_ends_the_server(server: ServerProcess, tmp_path: Path) -> None:
    flags = ("--platform", "interpreter", "--metrics-listen", server.ready["metrics"])
    with pytest.raises(AssertionError), start_server(tmp_path, *flags):
        pass
    message = f"cannot listen on {server.ready['metrics']}: Address already in use"
    assert message in (tmp_path / "server.log").read_text()
