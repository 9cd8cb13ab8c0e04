"""A process that has loaded the modules of a server and forks for each server that is started.

Loading is most of the second of processor time that a start takes. Such a server has a command
line, an environment, signals and an exit of its own, as one of `python -m xla_server` has.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.command_line import command_line
from xla_host.environment_variables import GRPC_LOG
from xla_server.app import cli

MODULE = "tests.e2e.fork_server"

_LOADED = ("xla_server.app.commands", "xla_server.app.serving.lifecycle")
"""The modules that every server loads."""

_LOADED_BY_PLATFORM = {"interpreter": (), "cpu": ("xla_server.backends.compiled.cpu",)}
"""The modules that servers of a platform load besides."""

_LOADED_WORD = b"loaded"
_REQUEST_BYTES = 1 << 20
_SET_CHILD_SUBREAPER = 36
"""An option of prctl, from Linux's prctl.h."""

_lock = threading.Lock()


@dataclasses.dataclass
class ForkedProcess:
    """A child of this process that another one forked, with the calls of `subprocess.Popen`."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, as `subprocess.Popen` has it; None while the process runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; raises TimeoutExpired after so many seconds."""
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                if not select.select([handle], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(MODULE, timeout or 0)
            finally:
                os.close(handle)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


def fork_server(platform: str, arguments: Sequence[str], output: int, errors: int) -> ForkedProcess:
    """Start a server of a platform as `python -m xla_server ARGUMENTS`, with these descriptors."""
    request = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
    with _lock:
        connection = _template(platform)
        with _adopting():
            socket.send_fds(connection, [json.dumps(request).encode()], [output, errors])
            return ForkedProcess(int(connection.recv(64)))


@functools.cache
def _template(platform: str) -> socket.socket:
    """Start the process that forks, which ends with this one; return the connection to it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", MODULE, platform, str(its.fileno())]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], cwd=root)
    its.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    assert ours.recv(len(_LOADED_WORD)) == _LOADED_WORD
    return ours


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Make orphans of this process's descendants its children while the block runs."""
    prctl = ctypes.CDLL(None).prctl
    assert not prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _await_start(connection: socket.socket) -> None:
    """Fork for each request, and return in the new process, which is what the request says."""
    connection.send(_LOADED_WORD)
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 2)
        if not data:
            sys.exit()
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            server = os.fork()
            if server:
                os.write(writing, str(server).encode())
                # The server is an orphan now, and its requester becomes its parent.
                os._exit(0)
            break
        os.waitpid(between, 0)
        connection.send(os.read(reading, 64))
        for descriptor in (*descriptors, reading, writing):
            os.close(descriptor)
    for descriptor, standard in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, standard)
    connection.close()
    for descriptor in (*descriptors, reading, writing):
        os.close(descriptor)
    request = json.loads(data)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv[1:] = request["arguments"]


def main() -> None:
    """Load what a platform needs, then fork until the connection ends."""
    parser = command_line(MODULE, __doc__)
    parser.add_argument("platform", choices=_LOADED_BY_PLATFORM)
    parser.add_argument("descriptor", type=int, help="of a connected socket of packets")
    chosen = parser.parse_args()
    # `cli.main` does the same too late here: gRPC reads it when it is imported.
    GRPC_LOG.set_default("NONE")
    for module in (*_LOADED, *_LOADED_BY_PLATFORM[chosen.platform]):
        importlib.import_module(module)
    _await_start(socket.socket(fileno=chosen.descriptor))
    cli.main()


if __name__ == "__main__":
    main()
