"""Thunks that the host does become steps, which read and write what others have."""

import threading
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from tests.unit.backends.cuda.programs import (
    code,
    copy,
    host_run,
    launch,
    library,
    python,
    updated,
    value,
)
from xla_contract.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from xla_server.backends.cuda import host_steps
from xla_server.backends.cuda.host_steps import HostStep, HostSteps, placed_thunks
from xla_server.buffers.code import HostThunk, Jump, Label, Value
from xla_server.codegen.kernel import Kernels
from xla_server.execution import memory_check
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.runtime.host import RunContext
from xla_server.runtime.threads import KernelThreads


class Slots:
    """Arrays by slots, and what was transferred."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays = {name: np.float32(array) for name, array in arrays.items()}
        self.read_slots: list[int] = []
        self.written_slots: list[int] = []
        self.numbers = {name: number for number, name in enumerate(arrays)}

    def read(self, slot: int, array: Any) -> None:
        self.read_slots.append(slot)
        array[:] = self._at(slot)

    def write(self, slot: int, array: Any) -> None:
        self.written_slots.append(slot)
        self._at(slot)[:] = array

    def _at(self, slot: int) -> Any:
        return list(self.arrays.values())[slot].view(np.uint8)

    def of(self, *values: Value) -> dict[Value, int]:
        return {each: self.numbers[each.name] for each in values}


@pytest.fixture(scope="module")
def steps() -> HostSteps:
    kernels = Kernels(None, HOST)
    return HostSteps(kernels, KernelThreads(kernels, 1))


def only_step(thunks: list[Any]) -> HostStep:
    [step] = [thunk for thunk in thunks if isinstance(thunk, HostStep)]
    return step


a, b, c, d, e = map(value, "abcde")


def test_thunks_of_the_device_stay_and_others_are_steps() -> None:
    thunks = [launch(b, a), python(c, b), python(d, c), library(e, d)]
    first, step, last = placed_thunks(code(thunks, [a], [e]))
    assert (first, last) == (thunks[0], thunks[3])
    assert isinstance(step, HostStep)
    assert (step.code.thunks, step.reads, step.writes) == (thunks[1:3], [b], [d])


def test_a_step_has_no_label_or_jump_in_it() -> None:
    label = Label("end")
    thunks = [python(b, a), Jump(label), label, python(c, b)]
    found = placed_thunks(code(thunks, [a], [c]))
    assert [isinstance(thunk, HostStep) for thunk in found] == [True, False, False, True]


def test_copies_between_thunks_of_the_host_belong_to_the_step() -> None:
    thunks = [copy(b, a), updated(b), copy(c, b), updated(c), copy(d, c)]
    first, step, last = placed_thunks(code(thunks, [a], [b, d]))
    assert (first, last) == (thunks[0], thunks[4])
    assert isinstance(step, HostStep)
    assert (step.code.thunks, step.reads, step.writes) == (thunks[1:4], [b], [b, c])


def test_what_nobody_needs_is_not_uploaded_and_constants_are_not_downloaded() -> None:
    thunks = [python(c, a, b), python(d, c), launch(e, d)]
    step = only_step(placed_thunks(code(thunks, [a], [e], constants={b: np.float32([1, 2, 3, 4])})))
    assert (step.reads, step.writes, list(step.code.constants)) == ([a], [d], [b])


def test_a_step_computes_on_what_is_downloaded(steps: HostSteps) -> None:
    thunks = [copy(b, a), updated(b), copy(c, b), updated(c, add=10.0), launch(e, b, c)]
    step = only_step(placed_thunks(code(thunks, [a], [e])))
    slots = Slots(b=[1, 2, 3, 4], c=[0] * 4)
    steps.load(step).run(slots, slots.of(b, c), RunContext(ExecuteOptions(), host_run))
    np.testing.assert_array_equal(slots.arrays["b"], [2, 3, 4, 5])
    np.testing.assert_array_equal(slots.arrays["c"], [12, 13, 14, 15])
    assert (slots.read_slots, slots.written_slots) == ([0], [0, 1])


def test_constants_are_there_without_a_transfer(steps: HostSteps) -> None:
    thunks = [python(c, a, b), launch(e, c)]
    step = only_step(placed_thunks(code(thunks, [a], [e], constants={b: np.float32([1, 2, 3, 4])})))
    slots = Slots(a=[10] * 4, c=[0] * 4)
    steps.load(step).run(slots, slots.of(a, c), RunContext(ExecuteOptions(), host_run))
    np.testing.assert_array_equal(slots.arrays["c"], [12, 13, 14, 15])


def test_errors_of_thunks_leave_the_step_and_nothing_is_uploaded(steps: HostSteps) -> None:
    def failing(*_: Any) -> Any:
        raise InvalidArgumentError("the rule, got this").at("custom-call", "it")

    thunks = [HostThunk("failing", failing, (a,), (b,)), launch(c, b)]
    step = steps.load(only_step(placed_thunks(code(thunks, [a], [c]))))
    slots = Slots(a=[1] * 4, b=[7] * 4)
    with pytest.raises(InvalidArgumentError, match="custom-call %it: the rule, got this"):
        step.run(slots, slots.of(a, b), RunContext(ExecuteOptions(), host_run))
    np.testing.assert_array_equal(slots.arrays["b"], [7] * 4)


def test_a_cancelled_step_raises_what_the_cancellation_was_given(steps: HostSteps) -> None:
    cancellation, begun = Cancellation(), threading.Event()

    def cancelling(*_: Any) -> Any:
        begun.set()
        cancellation.cancel()
        return [np.zeros(4, np.float32)]

    thunks = [HostThunk("it", cancelling, (a,), (b,)), python(c, b), launch(d, c)]
    step = steps.load(only_step(placed_thunks(code(thunks, [a], [d]))))
    slots = Slots(a=[1] * 4, c=[7] * 4)
    with pytest.raises(CancelledError):
        step.run(
            slots, slots.of(a, c), RunContext(ExecuteOptions(cancellation=cancellation), host_run)
        )
    assert begun.is_set()
    np.testing.assert_array_equal(slots.arrays["c"], [7] * 4)


def test_a_step_that_the_host_has_no_memory_for_downloads_nothing(
    steps: HostSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = steps.load(only_step(placed_thunks(code([python(b, a), launch(c, b)], [a], [c]))))
    monkeypatch.setattr(memory_check, "free_memory", lambda: memory_check.RESERVE)
    monkeypatch.setattr(host_steps, "LARGE", 32)
    slots = Slots(a=[1] * 4, b=[7] * 4)
    with pytest.raises(ResourceExhaustedError, match="32 for a step through the host: 1 call"):
        step.run(slots, slots.of(a, b), RunContext(ExecuteOptions(), host_run))
    assert slots.read_slots == []


def test_a_step_reads_as_what_it_does() -> None:
    step = only_step(placed_thunks(code([python(b, a), python(c, b)], [a], [c])))
    assert str(step) == "through the host: 2 calls of Python"
