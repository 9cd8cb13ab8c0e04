"""A server that has little memory, and a client of it, for the tests that have no other."""

import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import is_served
from tests.fault.plain import Plain, until
from tests.fault.raw_peer import RESET, RawPeer

MEBIBYTE = 1 << 20
LIMIT = 256 * MEBIBYTE
"""Memory limit of the server; its resident memory alone is half of it."""


server = serving("--max-resident-bytes", str(LIMIT))


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Plain]:
    """A well-behaved client; everything is as before in the end."""
    client = Plain(server.address)
    is_served(client)
    before = client.counters()
    yield client
    until(lambda: client.counters() == before)
    client.end_session()


def resident_bytes(server: ServerProcess) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


def ended(calls: list[tuple[RawPeer, int]]) -> list[tuple[RawPeer, int]]:
    return [(peer, stream) for peer, stream in calls if (RESET, stream) in peer.frames]


def send_to_all(calls: list[tuple[RawPeer, int]], message: bytes, client: Plain) -> None:
    """Send a message on all streams at the same time, while a client is served."""
    senders = [
        threading.Thread(target=peer.send_as_allowed, args=(stream, message))
        for peer, stream in calls
    ]
    for sender in senders:
        sender.start()
    while any(sender.is_alive() for sender in senders):
        is_served(client)
    for sender in senders:
        sender.join()
