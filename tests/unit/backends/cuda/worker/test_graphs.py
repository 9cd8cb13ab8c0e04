"""Programs whose addresses come again are launched as graphs, with the same results."""

import collections
import sys
from collections.abc import Sequence

import pytest

from tests.unit.backends.cuda.worker.fake_driver import FakeDriver
from tests.unit.backends.cuda.worker.workers import launch, program
from xla_server.backends.cuda.worker import executor
from xla_server.backends.cuda.worker.executor import Lane, LoadedProgram, ProgramRun
from xla_server.backends.cuda.worker.graphs import MAX_GRAPHS
from xla_server.backends.cuda.worker.protocol import (
    Copy,
    DeviceRow,
    Finished,
    Jump,
    RunCancelledError,
)
from xla_server.backends.cuda.worker.shared_memory import STOP, SharedMemory, new_shared_memory

TWICE = (launch("increment", 0, 0), launch("increment", 0, 0))


class Device:
    """The fake device in this process, and programs of one parameter on it."""

    def __init__(self) -> None:
        self.driver, self.shared = FakeDriver(0), SharedMemory(new_shared_memory())
        self.driver.make_current()
        self.recent: collections.deque[str] = collections.deque()
        self.stream = self.driver.new_stream()
        self.lane = Lane(self.driver, self.stream, self.shared, 0, self.recent)

    def load(self, rows: Sequence[DeviceRow]) -> LoadedProgram:
        return LoadedProgram(self.driver, program(*rows), ())

    def value(self) -> int:
        """Return the address of a byte, which is one."""
        address = self.driver.allocate(1, self.stream)
        self.driver.upload(address, memoryview(b"\x01"), self.stream)
        return address

    def read(self, address: int) -> int:
        return self.lane.read(address, 1)[0]

    def run(self, loaded: LoadedProgram, address: int) -> None:
        assert isinstance(ProgramRun(self.lane, loaded, [address]).go_on(), Finished)

    @property
    def graphs(self) -> int:
        """Launches of graphs."""
        return sum(name.startswith("graph of") for name in self.recent)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device on which no run counts as long, however long it takes here."""
    monkeypatch.setattr(executor, "LONG_RUN_NANOSECONDS", sys.maxsize)
    return Device()


def test_addresses_that_come_again_have_a_graph(device: Device) -> None:
    loaded, first, second = device.load([*TWICE, Copy(0, 0, 1)]), device.value(), device.value()
    for _ in range(5):
        device.run(loaded, first)
    assert device.graphs == 3
    device.run(loaded, second)
    assert device.graphs == 3
    assert (device.read(first), device.read(second)) == (11, 3)


@pytest.mark.parametrize("rows", [TWICE[:1], (Jump(1), *TWICE)])
def test_one_launch_and_a_jump_have_none(device: Device, rows: tuple[DeviceRow, ...]) -> None:
    loaded, address = device.load(rows), device.value()
    for _ in range(5):
        device.run(loaded, address)
    assert device.graphs == 0


def test_a_program_whose_runs_are_long_has_none(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LONG_RUN_NANOSECONDS", 0)
    loaded, address = device.load(TWICE), device.value()
    for _ in range(5):
        device.run(loaded, address)
    assert device.graphs == 0


def test_a_program_that_cannot_be_captured_runs_without(device: Device) -> None:
    loaded, address = device.load([launch("uncapturable", 0, 0), TWICE[0]]), device.value()
    for _ in range(5):
        device.run(loaded, address)
    assert (device.graphs, device.read(address)) == (0, 11)


def test_more_addresses_than_graphs_give_the_same(device: Device) -> None:
    loaded, addresses = device.load(TWICE), [device.value() for _ in range(MAX_GRAPHS + 2)]
    for _ in range(5):
        for each in addresses:
            device.run(loaded, each)
    assert device.graphs > 0
    assert {device.read(each) for each in addresses} == {11}


def test_graphs_are_dropped_with_their_program(device: Device) -> None:
    loaded, address = device.load(TWICE), device.value()
    for _ in range(5):
        device.run(loaded, address)
    assert device.lane.graphs(loaded) is not None
    del loaded
    assert not device.driver.modules


def test_a_cancelled_run_launches_no_graph(device: Device) -> None:
    loaded, address = device.load(TWICE), device.value()
    for _ in range(5):
        device.run(loaded, address)
    device.shared.set_word(0, STOP)
    with pytest.raises(RunCancelledError):
        ProgramRun(device.lane, loaded, [address]).go_on()
    assert device.read(address) == 11
