"""The time of a soak, and what it has shown; and a connection that tests cut."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.process import ServerProcess
from tests.fault.plain import Plain, until
from tests.fault.proxy import Proxy
from tests.fault.rounds import CLOCK, IS_SOAK, Resources


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test its part of the time that is left."""
    tests = item.session.items
    CLOCK.begin(item.nodeid, len(tests) - tests.index(item))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how often each test has done what it does, and what that has cost the server."""
    if not IS_SOAK:
        return
    write = terminalreporter.write_line
    rounds = sum(soaked.rounds for soaked in CLOCK.soaked.values())
    terminalreporter.section("soak")
    write(f"{rounds} rounds of {len(CLOCK.soaked)} tests in {CLOCK.seconds / 60:.1f} minutes. What")
    write("servers use is given behind the first round and the last: MiB, threads, descriptors.")
    write(f"{'rounds':>6} {'seconds':>7}  {'MiB':>11} {'threads':>9} {'descr.':>9}  test")
    for test, soaked in CLOCK.soaked.items():
        first, last = soaked.first, soaked.last
        name = test.rpartition("/")[2].replace(".py::", ": ").replace("_", " ")
        if first is None or last is None:
            write(f"{soaked.rounds:6} {'':>39}  {name}, ended in the middle of a round")
            continue
        used = "{:>11} {:>9} {:>9}".format(*_pairs(first, last))
        write(f"{soaked.rounds:6} {soaked.seconds:7.1f}  {used}  {name}")


def _pairs(first: Resources, last: Resources) -> tuple[str, ...]:
    return (
        f"{first.resident_bytes >> 20}-{last.resident_bytes >> 20}",
        f"{first.threads}-{last.threads}",
        f"{first.descriptors}-{last.descriptors}",
    )


@pytest.fixture(scope="module")
def address(server: ServerProcess) -> str:
    return server.address


@pytest.fixture
def proxy(address: str) -> Iterator[Proxy]:
    """A connection between a client and the server, which tests cut."""
    with Proxy(address) as between:
        yield between


@pytest.fixture
def other(address: str) -> Iterator[Plain]:
    """A client of another session, which sees to it that everything is free in the end."""
    client = Plain(address)
    before = client.counters()
    yield client
    until(lambda: client.counters() == before)
    client.end_session()
