"""A server process on several addresses."""

import os
import stat
import subprocess
import sys
import tempfile

import pytest

import xla_client as xc
from tests.e2e.process import start_server


@pytest.fixture
def directory():
    # The path of a socket is short, those of tests may be long.
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield made


def serve(*flags):
    command = [sys.executable, "-m", "xla_server", "serve", "--platform", "interpreter", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_all_addresses_lead_to_the_same_server(tmp_path, directory):
    path = f"{directory}/socket"
    flags = ("--platform", "interpreter", "--listen", f"127.0.0.1:0,unix:{path}")
    with start_server(tmp_path, *flags) as server:
        first, second, third = server.ready["addresses"]
        assert server.address == first
        assert first != second
        assert third == f"unix:{path}"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        for target in (first, second, third):
            with xc.connect(target) as client:
                assert client.to_device(3).to_numpy() == 3
        # A second server does not take the socket away.
        refused = serve("--listen", f"unix:{path}")
        assert refused.returncode == 1
        assert f"{path}: Address already in use" in refused.stderr
        with xc.connect(third) as client:
            assert client.to_device(3).to_numpy() == 3
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert os.listdir(directory) == []


def test_the_socket_of_a_killed_server_is_used_again(tmp_path, directory):
    target = f"unix:{directory}/socket"
    for _ in range(2):
        with start_server(tmp_path, "--platform", "interpreter", "--listen", target) as server:
            with xc.connect(target) as client:
                assert client.to_device(3).to_numpy() == 3
            server.process.kill()
            server.process.wait()
            assert os.listdir(directory) == ["socket"]


def test_the_private_directory_of_shared_memory_goes_with_the_server(
    tmp_path, directory, monkeypatch
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
    with start_server(tmp_path, "--platform", "interpreter") as server:
        (made,) = os.listdir(directory)
        assert os.listdir(f"{directory}/{made}") == ["shared-memory"]
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert os.listdir(directory) == []
