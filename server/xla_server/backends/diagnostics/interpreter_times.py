"""Times of an execution of dynamic shape: of its programs' thunks, and of steps in between."""

import contextlib
import time
from collections.abc import Iterator

from xla_server.backends.diagnostics.profile import (
    Event,
    ExecutionTimes,
    TimedEntry,
    measured_thunks,
)
from xla_server.backends.loaded_program import LoadedProgram
from xla_server.runtime.thunk_times import MAX_SPANS, ThunkTimes

_SPANS = MAX_SPANS // 16
"""Bound of individually recorded executions, for one program's thunks and for steps."""


class InterpreterTimes:
    """Times of nested events in one thread.

    The time of an inner event is not counted in that of the outer one.
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str, str], TimedEntry] = {}
        self._events: list[Event] = []
        self._programs: dict[str, tuple[LoadedProgram, ThunkTimes]] = {}
        # Nanoseconds of inner events, for each event that is in progress.
        self._inside = [0]

    @contextlib.contextmanager
    def step(self, what: str, instruction: str, category: str) -> Iterator[None]:
        """Measure the block as a step of the walk."""
        key = (what, instruction, category)
        timed = self._steps.get(key)
        if timed is None:
            timed = self._steps[key] = TimedEntry(f"walk:{len(self._steps)}", *key)
        self._inside.append(0)
        begun = time.monotonic_ns()
        try:
            yield
        finally:
            ended = time.monotonic_ns()
            timed.time += ended - begun - self._inside.pop()
            timed.count += 1
            self._inside[-1] += ended - begun
            if len(self._events) < _SPANS:
                self._events.append(Event(timed, begun, ended))

    @contextlib.contextmanager
    def program(self, name: str, program: LoadedProgram) -> Iterator[ThunkTimes]:
        """Measure the block as a run of a program; yield the times of its thunks to fill in."""
        if name not in self._programs:
            self._programs[name] = (program, ThunkTimes(len(program.thunks), _SPANS))
        _, times = self._programs[name]
        with self.step(f"run {name}", "", "run"):
            before = sum(time for time, _ in times.totals)
            try:
                yield times
            finally:
                times.pause()
                self._inside[-1] += sum(time for time, _ in times.totals) - before

    def measured(self) -> ExecutionTimes:
        """Return all measurements."""
        parts = [
            measured_thunks(program.code, program.thunks, times, name)
            for name, (program, times) in self._programs.items()
        ]
        steps = list(self._steps.values())
        return ExecutionTimes(
            [*steps, *(timed for part in parts for timed in part.timed)],
            [*self._events, *(event for part in parts for event in part.events)],
            sum(step.count for step in steps) + sum(part.run_count for part in parts),
        )
