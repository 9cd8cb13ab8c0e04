"""The child process of Local: the server's command line, as long as its parent lives."""

import array
import fcntl
import signal
import subprocess
import sys
import termios
from typing import IO

from tests.fault.plain import until

COMMAND = [sys.executable, "-m", "xla_client._local_child"]


def _unread_bytes(pipe: IO[str]) -> int:
    """Return the bytes that the other end of a pipe has not read."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_it_serves_and_stops_well_when_its_parent_is_gone() -> None:
    serve = [*COMMAND, "serve", "--platform", "interpreter", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        # Input to it makes no difference.
        process.stdin.write("more\n")
        process.stdin.flush()
        until(lambda: not _unread_bytes(process.stdin))
        assert process.poll() is None
        # Its end does, as that of a parent that was killed.
        process.stdin.close()
        assert process.wait(100) == 0
        assert process.stderr is not None
        log = process.stderr.read()
    assert f"draining after {signal.SIGTERM.name}" in log
    assert '"drained"' in log
