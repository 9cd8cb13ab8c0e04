"""Forked children leave their parent's client alone, and open their own.

A fork leaves the threads of a process behind, with the locks that they hold. So each parent is a
process of its own, without the threads of other tests, and an alarm ends what hangs.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xla_client as xc

_SECONDS = 60
_ESTABLISHED = "01"
"""State of an open connection in Linux's table of TCP sockets."""

_SESSION = """
import os
import signal
import sys
import numpy as np
import xla_client as xc
from xla_client.session import session

client = xc.connect(sys.argv[1])
buffers = [client.to_device(np.float32(number)) for number in range(100)]
large = np.zeros(1 << 18, np.float32)
client.to_device(large).delete()
child = os.fork()
if child == 0:
    try:
        signal.alarm(30)
        del buffers[1:]
        client.free_unused()
        for call in (buffers[0].to_numpy, lambda: client.to_device(large)):
            try:
                call()
            except xc.UnavailableError as error:
                os.write(1, f"{error}\\n".encode())
        session._close_open_sessions()
        client.close()
        with xc.connect(client.target) as own:
            os.write(1, f"{own.to_device(np.float32(7)).to_numpy()}\\n".encode())
    finally:
        os._exit(0)
os.waitpid(child, 0)
print([int(each.to_numpy()) for each in buffers] == list(range(100)))
"""

_FEEDS = """
import contextlib
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
import xla_client as xc

client = xc.connect(sys.argv[1])
device, item = client.device(0), xc.Shape.parse("s32[]")
infeed, outfeed = device.infeed(item), device.outfeed(item)
infeed.put(1)
infeed.flush()
# The lock of a feed may be held by a thread that the child does not have.
with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as locked:
    for link in (infeed._sender, outfeed._receiver):
        pool.submit(locked.enter_context, link.changes).result()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            for call in (lambda: infeed.put(2), infeed.close, outfeed.get):
                try:
                    call()
                except xc.UnavailableError as error:
                    os.write(1, f"{error}\\n".encode())
            outfeed.close()
            os.write(1, b"closed\\n")
        finally:
            os._exit(0)
    pool.submit(locked.close).result()
os.waitpid(child, 0)
infeed.put(3)
infeed.flush()
print(infeed.close_queue(discard=True))
outfeed.close()
"""


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with xc.Local("interpreter", prepare=False, insecure=True) as client:
        yield client.target


def _printed(program: str, target: str) -> list[str]:
    command = [sys.executable, "-c", program, target]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=_SECONDS)
    return done.stdout.splitlines()


def _local_addresses(target: str) -> set[str]:
    """The addresses, in hexadecimal digits, of this host's open connections to the target."""
    port = f":{int(target.rpartition(':')[2]):04X}"
    tables = [Path("/proc/self/net", name).read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {row[1] for row in rows if row[2].endswith(port) and row[3] == _ESTABLISHED}


def test_clients_share_no_connection(target: str) -> None:
    """A connection shared by its target would be the parent's in a child."""
    before = _local_addresses(target)
    with xc.connect(target), xc.connect(target):
        assert len(_local_addresses(target) - before) == 2


def test_the_session_is_left_to_the_parent(target: str) -> None:
    first, second, value, whole = _printed(_SESSION, target)
    for reported in (first, second):
        assert "must be open, got that of the process this one was forked from" in reported
    assert value == "7.0"
    assert whole == "True"


def test_the_feeds_are_left_to_the_parent(target: str) -> None:
    *reported, last, left = _printed(_FEEDS, target)
    assert last == "closed"
    assert len(reported) == 3
    assert all("of the process this one was forked from" in each for each in reported)
    assert left == "2"
