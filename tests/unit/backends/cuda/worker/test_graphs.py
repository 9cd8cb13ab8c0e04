"""Programs whose addresses come again are launched as graphs, with the same results."""

import collections
import dataclasses
import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Sequence

import pytest

from tests.unit.backends.cuda.worker.fake_driver import FakeDriver
from tests.unit.backends.cuda.worker.workers import launch, program
from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.worker import executor, graphs
from xla_server.backends.cuda.worker import loaded as loaded_programs
from xla_server.backends.cuda.worker.exchange.protocol import (
    Branch,
    Copy,
    DeviceLostError,
    DeviceThunk,
    Finished,
    HostStep,
    Jump,
    LibraryCall,
    RunCancelledError,
    Switch,
)
from xla_server.backends.cuda.worker.exchange.shared_memory import (
    GO,
    STOP,
    SharedMemory,
    new_shared_memory,
)
from xla_server.backends.cuda.worker.executor import Lane, OwnedDevice, ProgramRun
from xla_server.backends.cuda.worker.loaded import MEASUREMENTS, WorkerProgram
from xla_server.backends.cuda.worker.segments import MAX_DEPTH, Case, Items, Loop, segments
from xla_server.codegen.gpu.plans.library_plans import FftPlan, GemmPlan, Matrix
from xla_server.target.gpu.properties import GPUS

MATRIX = Matrix(ElementType.F32, 4)
PRODUCT = GemmPlan(1, 4, 4, 4, MATRIX, MATRIX, MATRIX)
TWICE = (launch("increment", 0, 0), launch("increment", 0, 0))


class FakeGraph(list[Callable[[], None]]):
    """A graph of the fake device that can be counted."""

    __hash__ = object.__hash__


class Device:
    """The fake device in this process, and programs of one parameter on it."""

    def __init__(self, *, is_pinned: bool = True) -> None:
        self.driver, self.shared = FakeDriver(0), SharedMemory(new_shared_memory())
        self.driver.make_current()
        if is_pinned:
            self.shared.device_address = self.driver.pin(self.shared.view)
        self.owned = OwnedDevice(self.driver, self.shared)
        self.recent = self.owned.recent = collections.deque()
        self.stream = self.driver.new_stream()
        self.lane = Lane(self.owned, self.stream, 0)

    def load(self, thunks: Sequence[DeviceThunk]) -> WorkerProgram:
        return WorkerProgram(self.driver, program(*thunks), ())

    def load_with_arena(self, thunks: Sequence[DeviceThunk]) -> WorkerProgram:
        """Load thunks with four bytes of zero in slot 1, and others in slots behind it."""
        zeros = self.driver.allocate(4, self.stream)
        self.driver.upload(zeros, memoryview(bytes(4)), self.stream)
        return WorkerProgram(
            self.driver, program(*thunks, constants=[bytes(4)], arena=[0, 256]), [zeros]
        )

    def value(self) -> int:
        """Return the address of four bytes, the first of which is one."""
        address = self.driver.allocate(4, self.stream)
        self.driver.upload(address, memoryview(b"\x01"), self.stream)
        return address

    def read(self, address: int) -> int:
        return self.lane.read(address, 1)[0]

    def run(self, loaded: WorkerProgram, address: int) -> None:
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


COUNTING = [
    *(launch("is_below_two_hundred", 0, 1), Branch(1, 5)),
    *(launch("increment", 0, 0), Copy(0, 0, 1), Jump(0)),
]
"""Counts a byte to two hundred."""


def test_a_loop_is_a_graph_within_its_first_run(device: Device) -> None:
    loaded, address = device.load_with_arena(COUNTING), device.value()
    waits = device.driver.waits
    device.run(loaded, address)
    assert device.read(address) == 200
    assert device.graphs == 1
    assert device.driver.waits - waits < 20
    # Launches in a loop keep their addresses.
    other = device.value()
    device.run(loaded, other)
    assert (device.read(other), device.driver.captures, device.driver.changes) == (200, 4, 0)


@pytest.mark.parametrize("lacks", ["capability", "pinned memory", "driver"])
def test_where_graphs_have_no_loops_their_bodies_are_graphs(
    device: Device, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    gpu = dataclasses.replace(GPUS["sm_90"], has_conditional_graphs=False)
    if lacks == "capability":
        monkeypatch.setattr(loaded_programs, "GPUS", {"sm_90": gpu})
    elif lacks == "pinned memory":
        device = Device(is_pinned=False)
    else:
        monkeypatch.setattr(FakeDriver, "capture_loop", _refused)
    loaded, address = device.load_with_arena(COUNTING), device.value()
    device.run(loaded, address)
    assert device.read(address) == 200
    assert device.graphs == 199 - MEASUREMENTS - 1


def _refused(*arguments: object) -> None:
    raise ValueError("conditional nodes are not supported")


@pytest.mark.parametrize(
    ("chooses", "end"), [(Branch(1, 6), 201), (Switch(1, (4, 6)), 200), (Switch(3, (4, 6)), 201)]
)
def test_a_loop_with_cases_is_one_graph(device: Device, chooses: DeviceThunk, end: int) -> None:
    # Slot 1 has four bytes, 1 below five and else 0; slot 3 has -1. The second case adds two.
    thunks = [
        *(launch("is_below_two_hundred", 0, 2), Branch(2, 10), launch("is_below_five", 0, 1)),
        *(chooses, TWICE[0], Jump(9), *TWICE, Jump(9), Jump(0)),
    ]
    loaded, address = device.load_with_arena(thunks), device.value()
    for number in 2 * list(range(len(thunks))):
        loaded.measure(number, 0)
    device.run(loaded, address)
    assert (device.read(address), device.graphs) == (end, 1)


def test_a_loop_that_is_stopped_in_a_graph_cancels_its_run(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = itertools.count()

    def turn(driver: FakeDriver, count: int, addresses: Sequence[int]) -> None:
        if next(turns) == 40:
            device.shared.set_word(0, STOP)

    monkeypatch.setattr(FakeDriver, "_kernel_increment", turn)
    loaded, address = device.load_with_arena(COUNTING), device.value()
    with pytest.raises(RunCancelledError):
        ProgramRun(device.lane, loaded, [address]).go_on()
    assert (next(turns), device.graphs) == (41, 1)


def test_a_thunk_that_was_stopped_is_not_measured(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = functools.partial(device.shared.set_word, 0, STOP)
    monkeypatch.setattr(FakeDriver, "_kernel_increment", lambda *_: stop())
    loaded, address = device.load([launch("increment", 0, 0)]), device.value()
    for _ in range(MEASUREMENTS):
        device.shared.set_word(0, GO)
        with pytest.raises(RunCancelledError):
            ProgramRun(device.lane, loaded, [address]).go_on()
    assert loaded.nanoseconds(0, 1) is None


def test_without_pinned_memory_kernels_poll_a_word_that_nothing_sets() -> None:
    device = Device(is_pinned=False)
    assert bytes(device.lane.read(device.lane.flag, 8)) == bytes(8)


def test_a_device_that_is_lost_in_a_loop_is_reported_with_its_graph(device: Device) -> None:
    thunks = [*COUNTING[:3], launch("late_fault", 0, 0), Jump(0)]
    loaded, address = device.load_with_arena(thunks), device.value()
    with pytest.raises(DeviceLostError, match="ILLEGAL_ADDRESS"):
        ProgramRun(device.lane, loaded, [address]).go_on()
    assert device.recent[-1] == "graph of is_below_two_hundred, increment, late_fault"


def _items(items: Items) -> object:
    """Return items as tuples of their thunk numbers."""
    found: list[object] = []
    for item in items:
        match item:
            case Loop():
                found.append(("loop", item.condition, _items(item.body)))
            case Case():
                found.append(("case", *map(_items, item.cases)))
            case _:
                found.append(item)
    return tuple(found)


def test_loops_and_cases_are_found_within_each_other() -> None:
    work = TWICE[0]
    inner = [work, Branch(1, 6), work, Jump(2)]
    thunks: list[DeviceThunk] = [work, Branch(1, 7), *inner, Jump(0), work]
    found = segments(thunks)
    outer = (("loop", (0,), (("loop", (2,), (4,)),)), 7)
    assert [_items(each.items) for each in found[0]] == [outer, outer[:1]]
    assert [_items(each.items) for each in found[2]] == [outer[0][2]]
    cases: list[DeviceThunk] = [Switch(1, (1, 3, 4)), work, Jump(6), Jump(6), work, Jump(6)]
    assert [_items(each.items) for each in segments(cases)[0]] == [(("case", (1,), (), (4,)),)]


STEP = HostStep(0)


@pytest.mark.parametrize(
    "thunks",
    [
        # A step of the server, and a loop, in the condition; a step in the body.
        [STEP, Branch(1, 3), Jump(0)],
        [TWICE[0], Branch(1, 3), Jump(0), Branch(1, 5), Jump(0)],
        [TWICE[0], Branch(1, 4), STEP, Jump(0)],
        # Ways out that lead elsewhere, cases out of order, a case without an end.
        [TWICE[0], Branch(1, 2), Jump(0)],
        [Switch(1, (3, 1)), TWICE[0], Jump(5), TWICE[0], Jump(5)],
        [Branch(1, 2), TWICE[0], TWICE[0], Jump(4)],
        [Branch(1, 3), TWICE[0], Jump(6), TWICE[0], Jump(5), TWICE[0]],
    ],
)
def test_thunks_of_other_forms_are_walked(thunks: list[DeviceThunk]) -> None:
    assert not any(each.has_jumps for found in segments(thunks).values() for each in found)


def test_loops_that_are_too_deep_are_walked() -> None:
    depth = MAX_DEPTH + 2
    thunks: list[DeviceThunk] = []
    for level in range(depth):
        thunks += [TWICE[0], Branch(1, 3 * depth - level)]
    thunks += [Jump(2 * level) for level in reversed(range(depth))]
    assert {first for first, found in segments(thunks).items() if found[0].has_jumps} == {
        2 * level for level in range(2, depth)
    }


def _plain(thunks: Sequence[DeviceThunk]) -> dict[int, int]:
    found = segments(thunks, with_jumps=False)
    return {first: segment.end for first, (segment,) in found.items()}


def test_calls_that_a_graph_can_have_are_in_segments() -> None:
    product = LibraryCall(PRODUCT, (0, 1, 2, 3))
    transform = LibraryCall(FftPlan(ElementType.C64, 1, (4,), is_inverse=False), (0, 1))
    assert _plain([launch("increment", 0, 0), product]) == {0: 2}
    assert _plain([launch("increment", 0, 0), transform]) == {}


def test_segments_begin_where_jumps_lead() -> None:
    increment, copy = launch("increment", 0, 0), Copy(0, 0, 1)
    assert _plain([increment, copy, increment]) == {0: 3}
    assert _plain([increment, copy, increment, copy, Jump(2)]) == {0: 2, 2: 4}
    assert _plain([increment, copy, Branch(0, 1)]) == {}
    assert _plain([HostStep(0), increment, increment, Switch(0, (0, 2))]) == {}
    assert _plain([]) == {}


@pytest.mark.parametrize("pending", [-1, 0])
def test_thunks_that_take_long_are_waited_for_one_by_one(
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


def test_thunks_that_are_known_are_waited_for_at_the_end(device: Device) -> None:
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


def test_new_addresses_take_over_the_graph_that_was_used_longest_ago(device: Device) -> None:
    # Each value is new, as results are that a client keeps.
    loaded, addresses = device.load(TWICE), [device.value() for _ in range(6)]
    for _ in range(MEASUREMENTS + 2):
        device.run(loaded, addresses[0])
    for each in addresses[1:]:
        device.run(loaded, each)
        device.driver.free(each, device.stream)
    assert (device.driver.captures, device.driver.changes, device.graphs) == (1, 10, 6)
    assert device.read(addresses[0]) == 1 + 2 * (MEASUREMENTS + 2)


def test_launches_whose_addresses_are_the_same_are_not_changed(device: Device) -> None:
    thunks = [launch("increment", 0, 2), launch("increment", 2, 3), launch("increment", 3, 0)]
    loaded, first, second = device.load_with_arena(thunks), device.value(), device.value()
    # Memory of the arena comes back at the same addresses, as in a pool.
    arena, allocate = device.driver.allocate(1024, device.stream), device.driver.allocate
    device.driver.allocate = lambda size, stream: arena if size == 1024 else allocate(size, stream)  # type: ignore[method-assign]
    device.driver.free = lambda address, stream: None  # type: ignore[method-assign]
    for address in [first] * (MEASUREMENTS + 2) + [second]:
        device.run(loaded, address)
    assert (device.driver.captures, device.driver.changes) == (1, 2)
    assert device.read(second) == 4


def test_addresses_that_take_turns_get_graphs_of_their_own(device: Device) -> None:
    loaded, addresses = device.load(TWICE), [device.value() for _ in range(3)]
    for _ in range(MEASUREMENTS + 6):
        for each in addresses:
            device.run(loaded, each)
    assert device.driver.captures == 3
    changes = device.driver.changes
    for each in addresses:
        device.run(loaded, each)
    assert (device.driver.captures, device.driver.changes) == (3, changes)
    assert {device.read(each) for each in addresses} == {1 + 2 * (MEASUREMENTS + 7)}


def test_copies_and_calls_have_new_addresses_as_launches_have(device: Device) -> None:
    thunks = [TWICE[0], LibraryCall(PRODUCT, (0, 0)), Copy(1, 0, 4), TWICE[0], Copy(0, 1, 4)]
    loaded, addresses = device.load_with_arena(thunks), [device.value() for _ in range(3)]
    for address in [addresses[0]] * (MEASUREMENTS + 2) + addresses[1:]:
        device.run(loaded, address)
    assert (device.driver.captures, device.driver.changes, device.graphs) == (1, 2 * len(thunks), 3)
    assert [device.read(each) for each in addresses] == [1 + 2 * (MEASUREMENTS + 2), 3, 3]


@pytest.mark.parametrize(
    ("thunks", "end", "changes"),
    [
        # A thunk of the condition is before the loop and in it; the loop reads its predicate.
        (
            [
                *(launch("is_below_two_hundred", 0, 2), Branch(2, 6), TWICE[0]),
                *(LibraryCall(PRODUCT, (0, 3)), Copy(0, 3, 4), Jump(0)),
            ],
            *(201, 6),
        ),
        # Below five one more and a copy to and fro, else two more, which only the argument has.
        (
            [
                *(launch("is_below_two_hundred", 0, 2), Branch(2, 12)),
                *(launch("is_below_five", 0, 3), Branch(3, 8)),
                *(TWICE[0], Copy(3, 0, 1), Copy(0, 3, 1), Jump(11), *TWICE, Jump(11), Jump(0)),
            ],
            *(201, 10),
        ),
    ],
    ids=["loop", "case in a loop"],
)
def test_loops_and_branches_have_new_addresses_as_other_thunks_have(
    device: Device, thunks: Sequence[DeviceThunk], end: int, changes: int
) -> None:
    loaded, addresses = device.load_with_arena(thunks), [device.value() for _ in range(4)]
    for number in 2 * list(range(len(thunks))):
        loaded.measure(number, 0)
    # Memory of the arena has other addresses in each run here.
    for address in addresses:
        device.run(loaded, address)
    assert [device.read(each) for each in addresses] == [end] * len(addresses)
    assert (device.driver.changes, device.graphs) == (changes * 3, 4)


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_graph_that_cannot_be_changed_is_not_taken_over(
    device: Device, monkeypatch: pytest.MonkeyPatch, *, is_copy: bool
) -> None:
    changed: list[object] = []

    def refused(driver: FakeDriver, *node: object) -> None:
        changed.append(node)
        _refused()

    # A copy of a value to itself is no node. A graph that a driver refused to change is not
    # launched, and it is not queried again.
    monkeypatch.setattr(FakeDriver, "change_node", refused)
    thunk = Copy(0, 0, 1) if is_copy else TWICE[0]
    loaded, first, second = device.load([*TWICE, thunk]), device.value(), device.value()
    for address in [first] * (MEASUREMENTS + 2) + [second] * 3 + [device.value(), first]:
        device.run(loaded, address)
    assert len(changed) == (not is_copy)
    added = 2 if is_copy else 3
    assert device.driver.captures == 2 + (not is_copy)
    assert device.read(first) == 1 + added * (MEASUREMENTS + 3)
    assert device.read(second) == 1 + added * 3


def test_graphs_are_bounded_in_number(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: weakref.WeakSet[FakeGraph] = weakref.WeakSet()
    end = FakeDriver.end_capture

    def noted(driver: FakeDriver, stream: int) -> FakeGraph:
        made.add(graph := FakeGraph(end(driver, stream)))
        return graph

    monkeypatch.setattr(FakeDriver, "end_capture", noted)
    monkeypatch.setattr(executor, "MAX_PROGRAMS", 2)
    monkeypatch.setattr(graphs, "MAX_ADDRESS_SETS", 4)
    addresses = [device.value() for _ in range(6)]
    programs = [device.load([*TWICE, Copy(0, 0, 1)]) for _ in range(3)]
    for loaded in programs:
        for each in addresses:
            for _ in range(MEASUREMENTS + 2):
                device.run(loaded, each)
        assert len(made) <= 2 * 4
    assert (device.driver.captures, len(made)) == (3 * 6, 2 * 4)
    assert {device.read(each) for each in addresses} == {1 + 2 * 3 * (MEASUREMENTS + 2)}
    # The program that ran last keeps its graphs.
    for number in (1, 0, 1):
        device.run(programs[number], addresses[-1])
    assert device.recent[-1].startswith("graph of")


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
