"""A server of one's own, for notebooks and tests."""

import json
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Any

from xla_client.client import Client, connect
from xla_contract.errors import UnavailableError

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0
_LOG_TAIL = 4000


class Local:
    """A server in a child process, and a client connected to it.

    `with Local(platform="cpu", devices=2) as client:` starts the server on a free port
    and stops it at the end; `start` and `stop` do the same by hand. It needs the server's
    dependencies (the extra `server` of the package). Further options are those of
    `xla-server serve` with underscores: `max_message_bytes=2**20`, `prepare=False`; None leaves one
    out. The server does not outlive this process, however that ends.
    """

    def __init__(
        self,
        platform: str = "cpu",
        devices: int = 1,
        *,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        self._command = _command(platform, devices, options)
        self._timeout = timeout
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
        """Start the server and connect; raises UnavailableError with the end of its log."""
        if self._client is not None:
            return self._client
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        # The child watches its stdin, which ends when this process does.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        try:
            self._client = connect(self._listening(), timeout=self._timeout)
        except BaseException:  # Ctrl-C while waiting must not leave the server running either.
            self.stop()
            raise
        return self._client

    def stop(self) -> None:
        """Disconnect and stop the server; harmless when there is none."""
        if self._client is not None:
            self._client.close()
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

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


def _command(platform: str, devices: int, options: dict[str, Any]) -> list[str]:
    command = [sys.executable, "-m", "xla_client._local_child", "serve"]
    arguments = {"listen": "127.0.0.1:0", "platform": platform, "devices": devices, **options}
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            command.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            command += [f"--{flag}", str(value)]
    return command
