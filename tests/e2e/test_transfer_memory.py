"""What memory a transfer takes, and that it is given back. docs/TRANSFERS.md has the multiples."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import start_server
from xla_contract.malloc import IDLE_SECONDS, tune

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SIZE = 64 << 20
RECEIVER, SENDER = 5, 3
"""How many times the literal a process takes for a moment, the value that stays with it included:
the parts as they come in or go out, grpc's own copies of the message, and ours."""
KEPT = 0.5
"""What may be left over, of the literal, in either process when nothing was transferred for a
while."""


def test_transfers_take_a_few_times_the_literal_and_give_it_back(tmp_path: Path) -> None:
    with start_server(tmp_path, "--platform", "interpreter") as server:
        # A client in a process of its own: what tests left in this one is not of transfers.
        done = subprocess.run(
            [sys.executable, "-m", "tests.e2e.test_transfer_memory"],
            input=f"{server.address} {server.process.pid}",
            text=True,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr


def transfer(address: str, server: int) -> None:
    """Transfer in single messages, as with a server that has no other way, and look at both."""
    value = np.arange(SIZE // 4, dtype=np.float32)
    client = xc.connect(address, shared_memory=False)
    client._session.chunks = None
    client.to_device(np.zeros(1024, np.float32)).delete()
    own, theirs = resident("self"), resident(server)
    kept: list[xc.Buffer] = []
    check("upload, server", peak(server, lambda: kept.append(client.to_device(value))), RECEIVER)
    check("download, server", peak(server, kept[0].to_numpy), SENDER)
    check("upload, client", peak("self", lambda: kept.append(client.to_device(value))), SENDER)
    check("download, client", peak("self", kept[1].to_numpy), RECEIVER)
    np.testing.assert_array_equal(kept[1].to_numpy(), value)
    for buffer in kept:
        buffer.delete()
    if tune():
        await_fall("self", own + KEPT * SIZE)
        # The pool of device memory keeps blocks for the next values.
        await_fall(server, theirs + (2 + KEPT) * SIZE)
    client.close()


def check(what: str, size: int, multiple: int) -> None:
    assert size < multiple * SIZE, f"{what}: {size / SIZE:.2f} times the literal"


def resident(process: int | str) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak(process: int | str, action: Callable[[], object]) -> int:
    """The most that a process had in memory during `action`, beyond what it had before."""
    before = resident(process)
    Path(f"/proc/{process}/clear_refs").write_text("5")
    action()
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 - before


def await_fall(process: int | str, limit: float) -> None:
    """Wait until a process has no more than `limit` bytes in memory."""
    deadline = time.monotonic() + IDLE_SECONDS + 20
    while resident(process) > limit:
        assert time.monotonic() < deadline, (resident(process), limit)
        time.sleep(0.1)


if __name__ == "__main__":
    target, process = sys.stdin.read().split()
    transfer(target, int(process))
