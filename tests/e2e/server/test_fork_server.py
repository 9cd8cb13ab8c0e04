"""A forked server is a child of the test, and as if Python had been started for it."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.e2e.process import start_server

FLAGS = ("--platform", "interpreter")


def test_it_has_what_its_start_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SERVER_DEVICES", "3")
    monkeypatch.chdir(tmp_path)
    with start_server(tmp_path, *FLAGS) as server:
        found = psutil.Process(server.process.pid)
        assert (found.ppid(), found.cwd()) == (os.getpid(), str(tmp_path))
        assert server.ready["devices"] == 3
        assert server.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0)
        server.process.terminate()
        assert server.process.wait(60) == 0
    with start_server(tmp_path, *FLAGS, "--devices", "2") as server:
        assert server.ready["devices"] == 2
        server.process.kill()
        assert server.process.wait() == -signal.SIGKILL
        assert server.process.poll() == -signal.SIGKILL
