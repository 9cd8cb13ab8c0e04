"""Checks of a platform under faults: exhausted memory, cancellation, a killed worker."""

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cuda.checks.outcomes import Check, error_of
from tests.cuda.checks.platform_checks import Sides
from tests.executing import execute
from tests.in_threads import in_threads
from xla_contract.errors import CancelledError, ResourceExhaustedError, UnavailableError
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Executable
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.text.parser import parse_module

DOUBLED = """HloModule doubled
ENTRY e {
  x = f32[1000] parameter(0)
  ROOT r = f32[1000] add(x, x) }
"""
ENDLESS = """HloModule endless
body { p = f32[4096] parameter(0)
  ROOT n = f32[4096] add(p, p) }
always { p = f32[4096] parameter(0)
  ROOT c = pred[] constant(true) }
ENTRY e {
  x = f32[4096] parameter(0)
  ROOT r = f32[4096] while(x), body=body, condition=always }
"""

ENDLESS_KERNEL = """HloModule endless
body { p = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT n = s32[] add(p, one) }
goes_on { p = s32[] parameter(0)
  odd = s32[] constant(1)
  bit = s32[] or(p, odd)
  zero = s32[] constant(0)
  ROOT c = pred[] compare(bit, zero), direction=NE }
ENTRY e {
  x = s32[] parameter(0)
  ROOT r = s32[] while(x), body=body, condition=goes_on }
"""
LONG_KERNEL = """HloModule long
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] multiply(a, b)
  ROOT s = s32[] subtract(c, a) }
ENTRY e {
  x = s32[] parameter(0)
  n = s32[1,1000000000] iota(), iota_dimension=1
  ROOT r = s32[1] reduce(n, x), dimensions={1}, to_apply=less }
"""

STOPPED_WITHIN = 1.0
"""Seconds in which a run ends after it was stopped; the aim is a tenth of it."""

STOPPED_KERNEL_WITHIN = 0.1
"""The same where one kernel runs, which looks each millisecond."""


def fault_checks(sides: Sides) -> Iterator[Check]:
    """Yield the checks of a platform, each of which leaves it as it was."""
    checked = FaultChecks(sides)
    names = ("stops", "goes_on_beside_a_run", "has_no_room", "loses_its_worker")
    for name in (*names, "runs_from_threads"):
        yield name.replace("_", " "), getattr(checked, name)


def cancel_checks(sides: Sides) -> Iterator[Check]:
    """Yield checks that kernels which run for long end soon after their runs are cancelled."""
    checked = FaultChecks(sides)

    def check(text: str) -> str:
        seconds = checked.stopped(text, np.int32(1))
        assert seconds < STOPPED_KERNEL_WITHIN, (
            f"the run ended {seconds:.3f} s after it was stopped"
        )
        return f"{1000 * seconds:.1f} ms after it was stopped"

    for name, text in {"an endless loop": ENDLESS_KERNEL, "a long reduction": LONG_KERNEL}.items():
        yield name, functools.partial(check, text)


def worker_pids() -> list[int]:
    """Return the processes of devices' workers that this process has started."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            children = file.read().split()
        for child in children:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                if b"cuda.worker" in file.read():
                    found.append(int(child))
    return found


class FaultChecks:
    """A platform under test."""

    def __init__(self, sides: Sides) -> None:
        self._platform = sides.device
        self._device = sides.device.devices[0]

    def _compiled(self, text: str) -> Executable:
        module = parse_module(text)
        return self._platform.compile(module, module.entry_program_shape)

    def _execute(
        self, executable: Executable, arguments: list[Any], cancellation: Cancellation | None = None
    ) -> Any:
        return execute(executable, self._device, arguments, cancellation).output

    def _placed(self, array: Any) -> Any:
        return self._platform.to_device(Literal.from_numpy(array), self._device)

    def _doubles(self) -> None:
        numbers = np.arange(1000, dtype=np.float32)
        found = self._execute(self._compiled(DOUBLED), [self._placed(numbers)])
        assert np.array_equal(found.to_literal().value, 2 * numbers)

    def stops(self) -> None:
        taken = self.stopped(ENDLESS, np.ones(4096, np.float32))
        assert taken < STOPPED_WITHIN, f"the run ended {taken:.2f} s after it was stopped"

    def stopped(self, text: str, array: Any) -> float:
        """Return the seconds that a run of a program without end takes to end once cancelled."""
        with self._running(text, array) as taken:
            pass
        self._doubles()
        return taken[0]

    @contextlib.contextmanager
    def _running(self, text: str, array: Any) -> Iterator[list[float]]:
        """Run a program without end during the block; then its list has the seconds to its end."""
        executable, cancellation = self._compiled(text), Cancellation()
        argument = self._placed(array)
        ended: list[float] = []
        taken: list[float] = []

        def run() -> None:
            try:
                self._execute(executable, [argument], cancellation)
            except CancelledError:
                ended.append(time.monotonic())

        thread = threading.Thread(target=run)
        thread.start()
        try:
            time.sleep(0.5)
            yield taken
            assert not ended
        finally:
            begin = time.monotonic()
            cancellation.cancel()
            thread.join(30)
        assert ended, "the run did not end"
        taken.append(ended[0] - begin)

    def goes_on_beside_a_run(self) -> None:
        """Values pass, programs load and run while a loop of a graph goes on for ever."""
        done: list[bool] = []

        def work() -> None:
            for size in (1, 64 << 10, 9 << 20):
                sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
                assert np.array_equal(self._placed(sent).to_literal().value, sent), size
            for _ in range(4):
                self._doubles()
            done.append(True)

        thread = threading.Thread(target=work)
        with self._running(ENDLESS, np.ones(4096, np.float32)):
            thread.start()
            thread.join(10)
            is_done = bool(done)
        thread.join(30)
        assert is_done, "transfers and other programs must not wait for a run"

    def has_no_room(self) -> None:
        text = DOUBLED.replace("1000", str(1 << 40)).replace(
            "parameter(0)", "iota(), iota_dimension=0"
        )
        error_of(ResourceExhaustedError, lambda: self._execute(self._compiled(text), []))
        self._doubles()

    def loses_its_worker(self) -> None:
        executable = self._compiled(DOUBLED)
        argument = self._placed(np.ones(1000, np.float32))
        pids = worker_pids()
        assert pids, "no worker was found"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        error_of(UnavailableError, lambda: self._execute(executable, [argument]))
        self._doubles()

    def runs_from_threads(self) -> None:
        executable = self._compiled(DOUBLED)

        def run(number: int) -> None:
            for turn in range(20):
                numbers = np.full(1000, number * 100 + turn, np.float32)
                found = self._execute(executable, [self._placed(numbers)])
                is_right = np.array_equal(found.to_literal().value, 2 * numbers)
                assert is_right, f"thread {number}, turn {turn}"

        in_threads(run, range(6))
