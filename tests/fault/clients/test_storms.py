"""A client is served, and the server keeps its size, whatever storm another client makes."""

import itertools

import psutil
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import is_served
from tests.fault.plain import Plain, until
from tests.fault.rounds import rounds
from tests.fault.storms import STORMS, storm

MEBIBYTE = 1 << 20
CALLS = 10
"""Rounds of calls of the client that behaves, while the storm goes on."""
GROWTH = 512 * MEBIBYTE
"""Bytes that a storm may add to the server's memory while it goes on."""


server = serving("--session-grace-seconds", "1", "--max-answer-bytes", str(128 * MEBIBYTE))

CASES = [
    (platform, name)
    for platform, name in itertools.product(("cpu", "interpreter"), STORMS)
    if FULL or platform == "interpreter" or name == "programs"
]
"""Platforms and storms. The others do not reach the platform, and the slice has them on one."""


@pytest.mark.parametrize(("server", "name"), CASES, indirect=["server"])
def test_a_client_is_served_in_a_storm(server: ServerProcess, name: str) -> None:
    client = Plain(server.address)
    # A session lasts while its client has a conversation.
    client.stream("Converse")
    is_served(client)
    before, process = client.counters(), psutil.Process(server.process.pid)
    resident = process.memory_info().rss
    for _ in rounds():
        with storm(name, server.address):
            for _ in range(CALLS):
                is_served(client)
            other = Plain(server.address)
            is_served(other)
            other.end_session()
            assert process.memory_info().rss < resident + GROWTH
        # The server frees all that the storm held.
        until(lambda: client.counters() == before)
        is_served(client)
    client.end_session()
