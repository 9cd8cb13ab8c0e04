"""The server as a process: ready line, options, cancellation, signals."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e import modules
from tests.e2e.process import Raw, start_server
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import ONES, endless
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_server", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


def _graph() -> xla_pb2.ComputeConstantGraphRequest:
    return xla_pb2.ComputeConstantGraphRequest(computation=modules.endless())


def _outfeed() -> xla_pb2.TransferFromOutfeedRequest:
    return xla_pb2.TransferFromOutfeedRequest(shape_with_layout=modules.shape("f32[2]"))


def test_the_ready_line_says_where_and_what(tmp_path):
    with start_server(tmp_path, environment={"XLA_SERVER_DEVICES": "3"}) as server:
        host, port = server.address.rsplit(":", 1)
        assert host == "127.0.0.1"
        assert int(port) > 0
        assert server.ready["platform"] == "cpu"
        assert server.ready["devices"] == 3
        for line in server.log.read_text().splitlines():
            assert json.loads(line)["level"] == "info"


def test_a_call_that_grpc_refuses_writes_no_line_into_the_log(tmp_path):
    with start_server(tmp_path, "--platform", "interpreter", forked=False) as server:
        refused = pytest.raises(grpc.RpcError, match="Compression algorithm 'gzip' is disabled")
        compressed = grpc.Compression.Gzip
        with grpc.insecure_channel(server.address, compression=compressed) as channel, refused:
            channel.unary_unary("/xla.XlaService/GetShape")(bytes(1 << 10), timeout=60)
        for line in server.log.read_text().splitlines():
            assert json.loads(line)["level"] == "info"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_an_idle_server_ends_it_with_0(tmp_path, signum):
    with start_server(tmp_path, forked=False) as server:
        server.process.send_signal(signum)
        assert server.process.wait(60) == 0


def test_a_client_that_gives_up_frees_its_thread(tmp_path):
    """With one thread for each kind of call, the next call shows that the last one ended."""
    flags = [f"--{kind}-threads=1" for kind in ("short", "compile", "execute")]
    with start_server(tmp_path, *flags) as server:
        raw = Raw(server.address)

        def calls() -> int:
            return int(raw.DescribeServer(extension_pb2.DescribeServerRequest()).calls.used)

        idle = calls()
        handle = raw.compile(modules.echo_feed())
        execute = xla_pb2.ExecuteRequest(handle=handle)
        loop = xla_pb2.CompileRequest()
        endless().write_to(loop.computation)
        endless_run = xla_pb2.ExecuteRequest(
            handle=raw.compile(loop.computation), arguments=[raw.upload(ONES)]
        )
        for call, request in (
            (raw.ComputeConstantGraph, _graph()),
            (raw.Execute, endless_run),
            (raw.Execute, execute),
            (raw.TransferFromOutfeed, _outfeed()),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=0.5)
            assert caught.value.code() is StatusCode.DEADLINE_EXCEEDED
            until(lambda: calls() == idle)
            given_up = call.future(request)
            until(lambda: calls() > idle)
            given_up.cancel()
        constant = xla_pb2.ComputeConstantGraphRequest(computation=modules.constant_sum())
        raw.ComputeConstantGraph(constant, timeout=10)
        literal = modules.literal(np.float32([1, 2]))
        raw.TransferToInfeed(xla_pb2.TransferToInfeedRequest(literal=literal), timeout=10)
        raw.Execute(execute, timeout=10)
        # The cancelled transfer has not taken what was meant for this one.
        assert raw.TransferFromOutfeed(_outfeed(), timeout=10).literal.f32s == [1, 2]


def test_waiting_calls_do_not_hold_up_short_ones(tmp_path):
    with start_server(tmp_path) as server:
        raw = Raw(server.address)
        handle = raw.compile(modules.echo_feed())
        waiting = [
            call.future(request)
            for call, request in (
                (raw.Execute, xla_pb2.ExecuteRequest(handle=handle)),
                (raw.TransferFromOutfeed, _outfeed()),
            )
            for _ in range(40)
        ]
        raw.upload(np.float32(1))
        raw.compile(modules.pair())
        assert not any(call.done() for call in waiting)
        for call in waiting:
            call.cancel()


def test_health_is_an_exit_status(tmp_path):
    with start_server(tmp_path) as server:
        assert _run("health", "--target", server.address).returncode == 0
        server.process.terminate()
        server.process.wait(100)
        assert _run("health", "--target", server.address).returncode == 1


def test_a_unix_socket_and_ipv6_are_listened_on(tmp_path):
    targets = [f"unix:{tmp_path}/socket"]
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        targets.append("[::1]:0")
    for listen in targets:
        with start_server(tmp_path, "--listen", listen) as server:
            raw = Raw(server.ready["addresses"][-1])
            assert raw.GetDeviceHandles(xla_pb2.GetDeviceHandlesRequest(device_count=1))
            raw.close()


def test_wrong_options_are_reported_and_exit_2(tmp_path):
    config = tmp_path / "server.toml"
    config.write_text("colour = 'red'\n")
    for arguments, words in (
        (("--platform", "cuda"), "cuda"),
        (("--devices", "0"), "devices"),
        (("--listen", "nowhere"), "nowhere"),
        (("--config", str(config)), "colour"),
        (("--config", str(tmp_path / "none.toml")), "none.toml"),
    ):
        result = _run("serve", *arguments)
        assert result.returncode == 2, result
        assert words in result.stderr
        assert "Traceback" not in result.stderr
        assert not result.stdout


def test_a_port_in_use_is_reported_and_exits_1(tmp_path):
    with start_server(tmp_path) as server:
        result = _run("serve", "--listen", server.address)
        assert result.returncode == 1
        assert server.address in result.stderr
        assert "in use" in result.stderr
        assert "Traceback" not in result.stderr
