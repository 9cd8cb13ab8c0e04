"""A run: executables one after the other, with arguments sent along or results of earlier steps."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TypeAlias

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer, Device, Profile
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.error_context import with_context
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.programs.executable_table import ExecutionFootprint, LoadedExecutable
from xla_server.sessions.runs.grids.grid_runner import GridRunner
from xla_server.sessions.runs.memory_queue import Outcome
from xla_server.sessions.runs.program_runner import profile_of
from xla_server.sessions.runs.requests import ResultArgument
from xla_server.sessions.runs.run_outputs import PartOutcome, StepOutput, part_of, sent_back
from xla_server.sessions.values.futures import ValueFuture
from xla_server.sessions.values.value_table import Reservation, ValueTable

MAX_RUNS = 1024
"""Largest number of runs of one batch, as the contract says."""


Source: TypeAlias = "Buffer | ValueFuture | ResultArgument"


@dataclasses.dataclass(slots=True)
class PlannedStep:
    """One execution of a run, checked."""

    compiled: LoadedExecutable
    arguments: list[Source]
    donated: list[int]
    output: StepOutput
    result: Shape
    """The shape of the result."""
    byte_size: int
    """Bytes of the execution, without the arguments."""
    done_with: list[int] = dataclasses.field(default_factory=list)
    """The steps whose results have their last use in this one."""

    @property
    def is_shared(self) -> bool:
        """True if several devices run the step together."""
        return len(self.compiled.devices) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class StepOutcome:
    """The results of a step; kept parts come after kept values."""

    kept: tuple[Buffer, ...]
    value: Literal | None
    profile: Profile
    parts: tuple[PartOutcome, ...] = ()


@dataclasses.dataclass(slots=True, eq=False)
class PlannedRun:
    """A run that was checked. It holds its arguments, and memory for those sent along.

    Made by `plan_run`; `close` releases everything.
    """

    _grids: GridRunner
    device: Device
    steps: list[PlannedStep]
    _held: dict[int, Buffer | ValueFuture]
    """The arguments that are values of the session, by their handles."""
    _donated: list[int]
    """The handles that it donates."""
    _inline_reservation: Reservation | None
    """Memory of the values sent along, if any."""
    sent_back_bytes: int
    """Bytes of the results that are sent back, by their shapes."""
    label: int = 0
    """The handle of the execution, if the run was launched."""
    on_launch: Callable[[StepOutput, Buffer], None] | None = None
    """Takes the result of a launched run of one step when the device begins to compute it.

    A launched run has one, and may have values as arguments that the device has not computed yet.
    """

    @property
    def _values(self) -> ValueTable:
        return self._grids.runner.data

    @property
    def pending(self) -> list[ValueFuture]:
        """The arguments that other executions have not computed yet."""
        return [entry for entry in self._held.values() if isinstance(entry, ValueFuture)]

    @property
    def name(self) -> str:
        """The names of the programs."""
        return ", ".join(dict.fromkeys(step.compiled.name for step in self.steps))

    def free_donated(self) -> None:
        """Free the donated handles; raises as `ValueTable.remove_all`."""
        if self._donated:
            donated, self._donated = self._donated, []
            self._values.remove_all(donated)

    def reserve(
        self, cancellation: Cancellation, slots: FairSemaphore | None = None
    ) -> Reservation:
        """Reserve memory for all steps; waits and raises as `MemoryQueue.reserve`.

        All at once, so that no run waits for memory while it holds some.
        """
        size, footprint, number = self._need()
        runner = self._grids.runner
        try:
            return runner.engine.queue.reserve(runner.data, size, footprint, cancellation, slots)
        except ResourceExhaustedError as error:
            raise self._located(number, error) from error.__cause__

    def enter(self, on_left: Callable[[Outcome], None]) -> Reservation | Callable[[], None]:
        """Reserve as `reserve` does, but wait without a thread; see `MemoryQueue.enter`."""
        size, footprint, number = self._need()
        runner = self._grids.runner
        try:
            return runner.engine.queue.enter(runner.data, size, footprint, on_left)
        except ResourceExhaustedError as error:
            raise self._located(number, error) from error.__cause__

    def _need(self) -> tuple[int, ExecutionFootprint, int]:
        """Return the bytes to reserve, their purpose, and the step that needs most."""
        needs = self._needs()[:-1]
        number = needs.index(max(needs))
        return needs[number], self.steps[number].compiled.footprint, number

    def _needs(self) -> list[int]:
        """Return the bytes that each step needs, earlier results included, and the total kept."""
        needs: list[int] = []
        results: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            needs.append(sum(results.values()) + step.byte_size)
            results[number] = step.result.byte_size
            for done in step.done_with:
                if not self.steps[done].output.is_used:
                    del results[done]
        return [*needs, sum(results.values())]

    @contextlib.contextmanager
    def executing(
        self, cancellation: Cancellation, reservation: Reservation | None = None
    ) -> Iterator[list[StepOutcome]]:
        """Run the steps in `reservation`; yield the outcomes, to be kept in the block.

        Raises ValuePendingError for an argument that is not computed, the error of one that failed,
        the errors of running, and without `reservation` as `reserve`.
        """
        runner, results = self._grids.runner, dict[int, Buffer]()
        reservation = self.reserve(cancellation) if reservation is None else reservation
        needs = self._needs()
        outcomes: list[StepOutcome] = []
        time_slicer = runner.engine.time_slicer
        # Participants take turns of their own; the run that waits for them must take none.
        is_shared = any(step.is_shared for step in self.steps)
        time_slice = None if is_shared else time_slicer.begin(cancellation, runner.flow)
        try:
            for number, step in enumerate(self.steps):
                try:
                    if not number:
                        self.free_donated()
                    cancellation.check()
                    if time_slice is not None or step.is_shared:
                        outcomes.append(self._execute(number, step, results, cancellation))
                    else:
                        with cancellation.followed() as own, time_slicer.acquired(own, runner.flow):
                            outcomes.append(self._execute(number, step, results, own))
                except XlaError as error:
                    raise self._located(number, error) from error.__cause__
                for done in step.done_with:
                    results.pop(done, None)
                reservation.shrink(max(needs[number + 1 :]))
            results.clear()
            yield outcomes
        finally:
            if time_slice is not None:
                time_slicer.end(time_slice)
            reservation.release()

    def close(self) -> None:
        """Release the arguments; no effect when done before."""
        held, self._held = self._held, {}
        if held:
            self._values.release(list(held.values()))
        if self._inline_reservation is not None:
            self._inline_reservation.release()
        self.on_launch = None
        # A launched run is remembered after its end, and must not keep the memory of arguments.
        for step in self.steps:
            step.arguments = []

    def _located(self, number: int, error: XlaError) -> XlaError:
        return with_context(f"step {number}", error) if len(self.steps) > 1 else error

    def _execute(
        self, number: int, step: PlannedStep, results: dict[int, Buffer], cancellation: Cancellation
    ) -> StepOutcome:
        on_launch = self.on_launch
        is_launched = on_launch is not None
        arguments = [_value_of(source, results, is_launched) for source in step.arguments]
        if step.is_shared:
            execution = self._grids.run_as_one(step.compiled, arguments, cancellation, self.label)
        else:
            # A value with another user must not be written over.
            donated = [
                each
                for each in step.donated
                if isinstance(step.arguments[each], ResultArgument)
                or self._values.is_held_once(arguments[each])
            ]
            launched: Callable[[Buffer], None] | None = None
            if on_launch is not None and len(self.steps) == 1:
                launched = functools.partial(on_launch, step.output)
            execution = self._grids.runner.run(
                step.compiled,
                arguments,
                self.device,
                cancellation,
                donated,
                label=self.label,
                launched=launched,
            )
        output, result = step.output, execution.output
        if step.done_with != [number]:
            results[number] = result
        outcomes = tuple(
            [
                PartOutcome(part.keep, sent_back(part_of(result, part.path), part.fetch_as))
                for part in output.parts
            ]
        )
        value = sent_back(result, output.fetch_as)
        profile = profile_of(execution, step.compiled)
        return StepOutcome(output.buffers(result), value, profile, outcomes)


def _value_of(source: Source, results: dict[int, Buffer], is_launched: bool) -> Buffer:
    if isinstance(source, ResultArgument):
        return part_of(results[source.step], source.path)
    if isinstance(source, ValueFuture):
        return source.launched() if is_launched else source.result()
    return source
