"""Small calls against a bare echo: unary, on a stream, in one call, by many clients."""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

import grpc
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from tests.benchmarks.transport.echo_server import echo_process
from xla_client import Builder, Shape
from xla_contract.descriptors import RPCS
from xla_contract.stubs import xla_data_pb2, xla_pb2

_CALLS = 50
_ROUNDS = 15
_CLIENTS = 16
_SECONDS = 1.0


def calls(client: xla_client.Client, echo: grpc.Channel) -> Iterator[Comparison]:
    """Cost of small calls; the client must have no timeout, as its stream has none."""
    echoing = echo.unary_unary("/bench.Echo/Echo")
    builder = Builder("null")
    executable = client.compile(builder.build(builder.constant(np.float32(0))))
    handle = xla_data_pb2.ExecutionHandle(handle=executable.handle)
    request = xla_pb2.ExecuteRequest(handle=handle).SerializeToString()
    transport = client._session.transport
    rpc = next(rpc for rpc in RPCS if rpc.name == "Execute")
    unary = transport._channel.unary_unary(rpc.path)
    metadata = transport._headers()

    def null_unary() -> None:
        xla_pb2.ExecuteResponse.FromString(unary(request, metadata=metadata))

    def null_stream() -> None:
        transport.call("Execute", request)

    def measured(name: str, ours: object, payload: bytes, gate: float) -> Comparison:
        return compare(
            name,
            f"echo of {len(payload)} bytes",
            ours,  # type: ignore[arg-type]
            lambda: echoing(payload),
            rounds=_ROUNDS,
            calls=_CALLS,
            gate=gate,
        )

    yield measured("null Execute, unary", null_unary, request, 1 / 1.3)
    yield measured("null Execute on the stream", null_stream, request, 1.0)
    vector = np.ones(1024, np.float32)
    builder = Builder("double")
    x = builder.parameter(0, Shape.parse("f32[1024]"))
    double = client.compile(builder.build(x + x))
    yield measured(
        "upload, execute, fetch in one", lambda: double.run(vector), vector.tobytes(), 1 / 1.5
    )
    yield from _by_many(client.target, rpc.path, request, metadata)


def _by_many(
    target: str,
    path: str,
    request: bytes,
    metadata: Sequence[tuple[str, str | bytes]],
) -> Iterator[Comparison]:
    """Calls in all, and the worst client against the mean one of the same server."""
    pairs = [f"{key}={value!s}" for key, value in metadata]
    rates: tuple[list[float], list[float]] = ([], [])
    worst: list[float] = []
    for _ in range(3):
        ours = _counts(target, path, request, pairs)
        with echo_process() as (echo_target, _):
            theirs = _counts(echo_target, "/bench.Echo/Echo", request, [])
        rates[0].append(sum(ours) / _SECONDS)
        rates[1].append(sum(theirs) / _SECONDS)
        worst.append(min(ours) * len(ours) / sum(ours))
    mine, peer = (1 / statistics.median(rate) for rate in rates)
    name = f"null Execute by {_CLIENTS} clients"
    yield Comparison(name, "echo, as many clients", mine, peer, 0.7)
    yield Comparison("the worst of them", "the mean of them", 1.0, statistics.median(worst), 0.5)


def _counts(target: str, path: str, request: bytes, pairs: Sequence[str]) -> list[int]:
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.transport.load_client",
        target,
        path,
        request.hex(),
        *pairs,
    ]
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(_CLIENTS)
        ]
        for client in clients:
            assert client.stdout is not None
            client.stdout.readline()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write(f"{_SECONDS}\n")
            client.stdin.flush()
        return [int(client.stdout.readline()) for client in clients if client.stdout is not None]
