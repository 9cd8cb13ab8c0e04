"""Checks of a platform where something goes wrong: no room, a stop, a worker that dies."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cuda.checks import Sides
from tests.cuda.outcomes import Check, error_of
from xla_contract.errors import CancelledError, ResourceExhaustedError, UnavailableError
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Executable
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import NoChannels
from xla_server.execution.feed_protocol import NoFeeds
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

STOPPED_WITHIN = 1.0
"""Seconds in which a run ends after it was stopped; the aim is a tenth of it."""


def fault_checks(sides: Sides) -> Iterator[Check]:
    """Yield the checks of a platform, each of which leaves it as it was."""
    checked = _Checked(sides)
    names = ("stops", "goes_on_beside_a_run", "has_no_room", "loses_its_worker")
    for name in (*names, "runs_from_threads"):
        yield name.replace("_", " "), getattr(checked, name)


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


class _Checked:
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
        return executable.execute(
            arguments,
            device=self._device,
            feeds=NoFeeds(),
            channels=NoChannels(),
            cancellation=cancellation or Cancellation(),
        ).output

    def _placed(self, array: Any) -> Any:
        return self._platform.to_device(Literal.from_numpy(array), self._device)

    def _doubles(self) -> None:
        numbers = np.arange(1000, dtype=np.float32)
        found = self._execute(self._compiled(DOUBLED), [self._placed(numbers)])
        assert np.array_equal(found.to_literal().value, 2 * numbers)

    @contextlib.contextmanager
    def _endless(self) -> Iterator[None]:
        """A run without end that goes on during the block, and soon ends with it."""
        executable, cancellation = self._compiled(ENDLESS), Cancellation()
        argument = self._placed(np.ones(4096, np.float32))
        ended: list[float] = []

        def run() -> None:
            try:
                self._execute(executable, [argument], cancellation)
            except CancelledError:
                ended.append(time.monotonic())

        thread = threading.Thread(target=run)
        thread.start()
        try:
            time.sleep(0.5)
            yield
            assert not ended
        finally:
            begin = time.monotonic()
            cancellation.cancel()
            thread.join(30)
        assert ended, "the run did not end"
        taken = ended[0] - begin
        assert taken < STOPPED_WITHIN, f"the run ended {taken:.2f} s after it was stopped"

    def stops(self) -> None:
        with self._endless():
            pass
        self._doubles()

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
        with self._endless():
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
        executable, wrong = self._compiled(DOUBLED), []

        def run(number: int) -> None:
            try:
                for turn in range(20):
                    numbers = np.full(1000, number * 100 + turn, np.float32)
                    found = self._execute(executable, [self._placed(numbers)])
                    if not np.array_equal(found.to_literal().value, 2 * numbers):
                        wrong.append(f"thread {number}, turn {turn}")
            except Exception as error:
                wrong.append(f"thread {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[0]
