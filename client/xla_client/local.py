"""A local server in a child process, for notebooks and tests."""

import contextlib
import importlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

from xla_client.client import Client
from xla_client.coercion.parameters import brief
from xla_client.connecting import connect, preload
from xla_client.local_options import LocalOptions, require_known
from xla_client.transport.credentials import forget, remember
from xla_contract import server_extra
from xla_contract.errors import FailedPreconditionError, UnavailableError

# Run by its path: as a module of this package it would import the client into the server.
_CHILD = (
    sys.executable,
    "-c",
    "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')",
    str(Path(__file__).with_name("_local_child.py")),
)

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0
_LOG_TAIL = 4000
_TOKEN_BYTES = 32
"""Seconds for a server to start and to stop; bytes of its log in errors; bytes of a token."""


class Local:
    """A server in a child process, and a client connected to it.

    `with Local(platform="cpu", devices=2) as client:` starts the server on a free port and stops it
    at the end; `start` and `stop` do the same by hand. It needs the server's dependencies (the
    extra `server` of the package).

    The server does not outlive this process, however that ends. It has a process group of its own,
    so that it keeps running when this process is interrupted (Ctrl-C, a notebook's interrupt). Only
    this process may call it, by a token that `connect` knows, unless the options `token_file` or
    `insecure` say otherwise.

    Args:
        platform: "cpu", "cuda" or "interpreter".
        devices: The number of devices.
        timeout: The deadline of the client's calls that state none, in seconds; None for no
            deadline.
        options: Options of `xla-server serve` with underscores, as `max_message_bytes=2**20` or
            `prepare=False`; None leaves one out.

    Raises:
        ArgumentTypeError: There is no such option; the message has the nearest name.
    """

    @brief
    def __init__(
        self,
        platform: str = "cpu",
        devices: int = 1,
        *,
        timeout: float | None = None,
        **options: Unpack[LocalOptions],
    ) -> None:
        require_known(options)
        self._command = _command(platform, devices, options)
        self._timeout = timeout
        # Other users of this machine may not call unless the options permit it.
        self._has_token = not {"insecure", "token_file"} & options.keys()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._log: Any = None

    @property
    def target(self) -> str:
        """The address of the running server; raises UnavailableError when there is none."""
        if self._client is None:
            raise UnavailableError("the local server must be started, got none running")
        return self._client.target

    def start(self) -> Client:
        """Start the server and connect.

        Returns:
            The client.

        Raises:
            UnavailableError: The server did not start; the message has the end of its log.
            FailedPreconditionError: The client is installed without the server.
        """
        if self._client is not None:
            return self._client
        _require_server()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        token = secrets.token_urlsafe(_TOKEN_BYTES) if self._has_token else None
        with _inherited(token) as descriptor:
            inherited = () if descriptor is None else (descriptor,)
            flags = [f"--token-file=/dev/fd/{each}" for each in inherited]
            # The child watches its stdin, which ends when this process does.
            self._process = subprocess.Popen(
                [*self._command, *flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                pass_fds=inherited,
                # Ctrl-C is for this process: a terminal and a notebook send it to the whole group.
                start_new_session=True,
            )
        try:
            _preload()
            target = self._listening()
            if token is not None:
                # The token is also for other clients of this process.
                remember(target, token)
            self._client = connect(target, timeout=self._timeout)
        except BaseException:  # Ctrl-C while waiting must not leave the server running either.
            self.stop()
            raise
        return self._client

    def stop(self) -> None:
        """Disconnect and stop the server; no effect without one."""
        if self._client is not None:
            self._client.close()
            forget(self._client.target)
            self._client = None
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Client:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = "not running" if self._client is None else f"running at {self.target}"
        return f"Local({' '.join(self._command[len(_CHILD) + 1 :])}; {where})"

    def _listening(self) -> str:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        # A server that hangs is killed, which ends the wait for its line.
        watchdog = threading.Timer(START_TIMEOUT, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        try:
            return str(json.loads(line)["listening"])
        except (ValueError, KeyError, TypeError):
            process.kill()
            process.wait()
            self._log.seek(0)
            log = self._log.read()[-_LOG_TAIL:].decode(errors="replace")
            raise UnavailableError(
                f"the local server must say where it listens, got {line!r} and exit code "
                f"{process.returncode}; its log ends with:\n{log}",
                op="Local",
            ) from None


@contextlib.contextmanager
def _inherited(token: str | None) -> Iterator[int | None]:
    """The end of a pipe with a token, for a child: no file or environment has the token."""
    if token is None:
        yield None
        return
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as pipe:
            pipe.write(token.encode())
        yield reading
    finally:
        os.close(reading)


def _preload() -> None:
    """Load the modules for building programs and for connecting before their first use.

    Loading takes a fifth of a second, while the child starts.
    """
    for name in ("xla_client.programs.builder", "xla_client.ops", "xla_host.environment_variables"):
        importlib.import_module(name)
    preload()


def _require_server() -> None:
    """Raise FailedPreconditionError, with what to install, if the server is not installed."""
    missing = [name for name in server_extra.MODULES if not _is_installed(name)]
    if missing:
        raise FailedPreconditionError(
            f"Local: {server_extra.advice(', '.join(missing))}", op="Local"
        )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _command(platform: str, devices: int, options: LocalOptions) -> list[str]:
    command = [*_CHILD, "serve"]
    # The server has no other client for which a share must be reserved.
    alone = {"identity_share": 1, "connection_share": 1}
    own = {"listen": "127.0.0.1:0", "platform": platform, "devices": devices}
    arguments: dict[str, Any] = own | alone | dict(options)
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            command += [f"--{flag}", str(value)]
    return command
