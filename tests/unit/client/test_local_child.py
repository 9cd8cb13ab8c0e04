"""The child process of Local: the server's command line, as long as its parent lives."""

import signal
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "xla_client._local_child"]


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
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        # Its end does, as that of a parent that was killed.
        process.stdin.close()
        assert process.wait(100) == 0
        assert process.stderr is not None
        log = process.stderr.read()
    assert f"draining after {signal.SIGTERM.name}" in log
    assert '"drained"' in log
