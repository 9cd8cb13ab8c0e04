"""`Local` in a process that is interrupted, killed, or without what the server needs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from xla_contract.server_extra import MODULES

_PROGRAM = """
import faulthandler
import signal
import threading
import numpy as np
import xla_client as xc
from tests.fault.plain import until
from tests.unit.client.small_programs import endless

# Shells ignore interrupts in what they run in the background, tests too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# One that hangs says where.
faulthandler.dump_traceback_later(60, exit=True)
own = xc.Local("interpreter", prepare=False)
with own as client:
    kept = client.to_device(np.float32([1, 2, 3]))
    forever = client.compile(endless())

    def tell():
        until(lambda: client.describe().use.concurrent_executions)
        print(own._process.pid, flush=True)

    threading.Thread(target=tell).start()
    try:
        forever.run(np.ones(4, np.float32))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(kept.to_numpy().tolist(), flush=True)
    input()
"""


def _started() -> "subprocess.Popen[str]":
    # A group of its own, as a terminal makes one for what it runs.
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_interrupt_of_the_group_leaves_the_server_and_a_killed_parent_does_not() -> None:
    with _started() as process:
        try:
            assert process.stdout is not None
            server = psutil.Process(int(process.stdout.readline()))
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert process.stdout.readline() == "[1.0, 2.0, 3.0]\n"
            assert server.is_running()
        finally:
            process.kill()
        process.wait(100)
        server.wait(100)
    assert not server.is_running()


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of Pythons in which nothing that only the server needs can be imported."""
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MODULES!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    return os.environ | {"PYTHONPATH": path}


def _ended(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_local_says_what_to_install(bare: dict[str, str]) -> None:
    program = """
import xla_client
try:
    xla_client.Local().start()
except xla_client.FailedPreconditionError as error:
    print(error)
"""
    done = _ended([sys.executable, "-c", program], bare)
    assert done.stderr == ""
    assert done.stdout.startswith("Local: the server's dependencies must be installed, got a ")
    assert done.stdout.endswith(
        "without llvmlite, numba, scipy, grpc_health, grpc_reflection, jwt, "
        "cryptography, prometheus_client, pydantic_settings, typer: "
        "pip install 'xla-service[server]'\n"
    )
