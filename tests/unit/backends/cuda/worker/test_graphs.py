"""Programs whose addresses come again are launched as graphs, with the same results."""

import collections
import sys
from collections.abc import Sequence

import pytest

from tests.unit.backends.cuda.worker.fake_driver import FakeDriver
from tests.unit.backends.cuda.worker.workers import launch, program
from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.worker import executor
from xla_server.backends.cuda.worker.exchange.protocol import (
    Branch,
    Copy,
    DeviceRow,
    Finished,
    HostStep,
    Jump,
    LibraryCall,
    RunCancelledError,
    Switch,
)
from xla_server.backends.cuda.worker.exchange.shared_memory import (
    STOP,
    SharedMemory,
    new_shared_memory,
)
from xla_server.backends.cuda.worker.executor import Lane, ProgramRun
from xla_server.backends.cuda.worker.graphs import MAX_ADDRESS_SETS
from xla_server.backends.cuda.worker.loaded import MEASUREMENTS, LoadedProgram, segments
from xla_server.codegen.gpu.plans import FftPlan, GemmPlan, Matrix

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
    monkeypatch.setattr(executor, "MAX_PENDING_NANOSECONDS", sys.maxsize)
    return Device()


def test_addresses_that_come_again_have_a_graph(device: Device) -> None:
    loaded, first, second = device.load([*TWICE, Copy(0, 0, 1)]), device.value(), device.value()
    for _ in range(MEASUREMENTS + 4):
        device.run(loaded, first)
    assert device.graphs == 3
    device.run(loaded, second)
    assert device.graphs == 3
    assert device.read(first) == 1 + 2 * (MEASUREMENTS + 4)
    assert device.read(second) == 3


def test_the_body_of_a_loop_has_a_graph(device: Device) -> None:
    body = (launch("increment", 0, 0), Copy(0, 0, 1), launch("is_below_two_hundred", 0, 1))
    rows = [*body, Branch(1, 5), Jump(0)]
    loaded = LoadedProgram(device.driver, program(*rows, arena=[0]), ())
    address = device.value()
    device.run(loaded, address)
    assert device.read(address) == 200
    assert device.graphs == 199 - MEASUREMENTS - 1


def test_calls_that_a_graph_can_have_are_in_segments() -> None:
    matrix = Matrix(ElementType.F32, 4)
    product = LibraryCall(GemmPlan(1, 4, 4, 4, matrix, matrix, matrix), (0, 1, 2, 3))
    transform = LibraryCall(FftPlan(ElementType.C64, 1, (4,), is_inverse=False), (0, 1))
    assert segments([launch("increment", 0, 0), product]) == {0: 2}
    assert segments([launch("increment", 0, 0), transform]) == {}


def test_segments_begin_where_jumps_lead() -> None:
    increment, copy = launch("increment", 0, 0), Copy(0, 0, 1)
    assert segments([increment, copy, increment]) == {0: 3}
    assert segments([increment, copy, increment, copy, Jump(2)]) == {0: 2, 2: 4}
    assert segments([increment, copy, Branch(0, 1)]) == {}
    assert segments([HostStep(0), increment, increment, Switch(0, (0, 2))]) == {}
    assert segments([]) == {}


@pytest.mark.parametrize("pending", [-1, 0])
def test_rows_that_take_long_are_waited_for_one_by_one(
    device: Device, monkeypatch: pytest.MonkeyPatch, pending: int
) -> None:
    monkeypatch.setattr(executor, "MAX_PENDING_NANOSECONDS", pending)
    loaded, address = device.load(TWICE), device.value()
    for _ in range(5):
        device.run(loaded, address)
    waits = device.driver.waits
    device.run(loaded, address)
    assert device.driver.waits == waits + 3
    assert device.graphs == 0


def test_rows_that_are_known_are_waited_for_at_the_end(device: Device) -> None:
    loaded, addresses = device.load(TWICE), [device.value() for _ in range(4)]
    for each in addresses[1:]:
        device.run(loaded, each)
    waits = device.driver.waits
    device.run(loaded, addresses[0])
    assert device.driver.waits == waits + 1


def test_a_program_that_cannot_be_captured_runs_without(device: Device) -> None:
    loaded, address = device.load([launch("uncapturable", 0, 0), TWICE[0]]), device.value()
    for _ in range(6):
        device.run(loaded, address)
    assert (device.graphs, device.read(address)) == (0, 13)


def test_more_addresses_than_graphs_give_the_same(device: Device) -> None:
    loaded, addresses = device.load(TWICE), [device.value() for _ in range(MAX_ADDRESS_SETS + 2)]
    for _ in range(5):
        for each in addresses:
            device.run(loaded, each)
    for _ in range(4):
        device.run(loaded, addresses[0])
    assert device.graphs == 3
    assert device.read(addresses[0]) == 19
    assert {device.read(each) for each in addresses[1:]} == {11}


def test_graphs_are_dropped_with_their_program(device: Device) -> None:
    loaded, address = device.load(TWICE), device.value()
    for _ in range(6):
        device.run(loaded, address)
    assert device.graphs > 0
    del loaded
    assert not device.driver.modules


def test_a_cancelled_run_launches_no_graph(device: Device) -> None:
    loaded, address = device.load(TWICE), device.value()
    for _ in range(6):
        device.run(loaded, address)
    device.shared.set_word(0, STOP)
    with pytest.raises(RunCancelledError):
        ProgramRun(device.lane, loaded, [address]).go_on()
    assert device.read(address) == 13
