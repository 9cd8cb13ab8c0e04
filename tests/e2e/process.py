"""A real server process and a client of nothing but grpc and the contract's messages."""

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.e2e import modules
from tests.e2e.fork_server import ForkedProcess, fork_server
from xla_contract.descriptors import EXTENSION_RPCS, RPCS
from xla_contract.stubs import xla_data_pb2, xla_pb2

_SIZES = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclasses.dataclass
class ServerProcess:
    process: subprocess.Popen[str] | ForkedProcess
    ready: dict[str, Any]
    log: Path

    @property
    def address(self) -> str:
        return self.ready["listening"]

    @property
    def connections(self) -> int:
        """Number of TCP connections of the process, listeners too."""
        return len(psutil.Process(self.process.pid).net_connections("tcp"))


@contextlib.contextmanager
def start_server(
    directory: Path,
    *flags: str,
    environment: dict[str, str] | None = None,
    insecure: bool = True,
    module: str = "xla_server",
    forked: bool = True,
) -> Iterator[ServerProcess]:
    """A server process; unless it is `insecure`, flags and environment configure access.

    `module` is what Python executes. A server of `xla_server` without an environment of its own is
    forked from a process that has loaded its modules, unless `forked` is False.
    """
    log = directory / "server.log"
    arguments = ["serve", "--listen", "127.0.0.1:0", *flags, *(["--insecure"] if insecure else [])]
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdout, log.open("w") as stderr:
        process: subprocess.Popen[str] | ForkedProcess
        try:
            if forked and environment is None and module == "xla_server":
                process = fork_server(_platform(flags), arguments, writing, stderr.fileno())
            else:
                command = [sys.executable, "-m", module, *arguments]
                variables = os.environ | (environment or {})
                process = subprocess.Popen(
                    command, stdout=writing, stderr=stderr, text=True, env=variables
                )
        finally:
            os.close(writing)
        try:
            line = stdout.readline()
            assert line, log.read_text()
            yield ServerProcess(process, json.loads(line), log)
        finally:
            process.kill()
            process.wait()


def _platform(flags: Sequence[str]) -> str:
    """Return the platform that flags of a server name, else the one it has by default."""
    words = [word for flag in flags for word in flag.split("=")]
    named = [value for name, value in itertools.pairwise(words) if name == "--platform"]
    return named[-1] if named else "cpu"


def serving(*flags: str, platforms: Sequence[str] = ("interpreter",)) -> Any:
    """Return a fixture of a module: a server process with these flags, of each of the platforms."""

    @pytest.fixture(scope="module", params=platforms if len(platforms) > 1 else None)
    def server(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[ServerProcess]:
        platform = getattr(request, "param", platforms[0])
        directory = tmp_path_factory.mktemp("server")
        with start_server(directory, "--platform", platform, *flags) as running:
            yield running

    return server


def mpirun(count: int) -> list[str]:
    """The beginning of the command that starts so many processes, of which one may end alone."""
    program = str(Path(sys.prefix) / "bin" / "mpirun")
    options = ["--allow-run-as-root", "--with-ft", "ulfm", "--oversubscribe", "--bind-to", "none"]
    return [program, *options, "-n", str(count)]


@contextlib.contextmanager
def start_ranks(directory: Path, count: int, *flags: str) -> Iterator[ServerProcess]:
    """A server in `count` processes; `process` is mpirun, whose group they are not in."""
    log = directory / "server.log"
    command = [*mpirun(count), sys.executable, "-m", "xla_server", "serve"]
    command += ["--listen", "127.0.0.1:0", "--insecure"]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--distributed", "mpi", *flags],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        yield ServerProcess(process, json.loads(line), log)
    finally:
        # It ends the ranks.
        process.terminate()
        process.communicate()


class Raw:
    """`raw.Compile(request)` for every unary rpc, plus what tests need again and again.

    Channels of one process share a connection, and with it the default session, unless they are
    to have one of their own.
    """

    def __init__(self, address: str, *, own: bool = False) -> None:
        options = [*_SIZES, ("grpc.use_local_subchannel_pool", int(own))]
        self._channel = grpc.insecure_channel(address, options=options)
        for rpc in (*RPCS, *EXTENSION_RPCS):
            if not (rpc.request_streaming or rpc.response_streaming):
                serialize, parse = rpc.request.SerializeToString, rpc.response.FromString
                setattr(self, rpc.name, self._channel.unary_unary(rpc.path, serialize, parse))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)

    def send_bytes(self, path: str, data: bytes, timeout: float = 30) -> bytes:
        return self._channel.unary_unary(path)(data, timeout=timeout)

    def close(self) -> None:
        self._channel.close()

    def upload(self, value: object) -> xla_data_pb2.GlobalDataHandle:
        request = xla_pb2.TransferToServerRequest(literal=modules.literal(value))
        return self.TransferToServer(request).data

    def download(self, data: xla_data_pb2.GlobalDataHandle) -> xla_data_pb2.LiteralProto:
        return self.TransferToClient(xla_pb2.TransferToClientRequest(data=data)).literal

    def compile(self, program: Any, **fields: Any) -> xla_data_pb2.ExecutionHandle:
        shapes = [
            modules.shape_of(parameter) for parameter in program.host_program_shape.parameters
        ]
        fields.setdefault("input_shape_with_layout", shapes)
        return self.Compile(xla_pb2.CompileRequest(computation=program, **fields)).handle


def refused(code: grpc.StatusCode, call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """The message of the error a call ends with; fails unless it has the code and the details."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **named)
    error: Any = caught.value
    assert error.code() is code, error.details()
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "xla-service"
    assert info.reason.endswith("Error")
    return str(error.details())
