"""Runs: executables one after the other, with arguments sent along or results of steps before.

All of a run is checked before anything of it runs: handles, counts, shapes, layouts, references
to earlier steps and donations.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_server.backends.backend import Buffer, Device, Profile
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.data import Reservation
from xla_server.sessions.devices import checked_device
from xla_server.sessions.donations import Donations, Path, Root
from xla_server.sessions.executables import Compiled, ExecutionRoom
from xla_server.sessions.memory_queue import Waiter
from xla_server.sessions.pending import PendingValue
from xla_server.sessions.quotas import Slots
from xla_server.sessions.records import located
from xla_server.sessions.runner import profile_of, same_but_for_layout
from xla_server.sessions.step_outputs import (
    Outputs,
    PartOutcome,
    StepOutput,
    part_of,
    part_shape,
    sent_back,
)

if TYPE_CHECKING:
    from xla_server.sessions.service import XlaService

MAX_STEPS = 1024
"""Of one run, as the contract says."""

MAX_RUNS = 1024
"""Of one batch, as the contract says."""


@dataclasses.dataclass(frozen=True, slots=True)
class _FromStep:
    """An argument that is the result of a step before, or a part of it."""

    step: int
    path: Path


_Source: TypeAlias = "Buffer | PendingValue | _FromStep"


@dataclasses.dataclass(slots=True)
class Step:
    """One execution of a run, checked."""

    compiled: Compiled
    arguments: list[_Source]
    donated: list[int]
    output: StepOutput
    done_with: list[int] = dataclasses.field(default_factory=list)
    """The steps whose results nobody needs after this one."""

    @property
    def result(self) -> Shape:
        """The shape of the result."""
        return self.compiled.program_shape.result


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a step gave. Of the kept values those of parts come last."""

    kept: tuple[Buffer, ...]
    value: Literal | None
    profile: Profile
    parts: tuple[PartOutcome, ...] = ()


class PreparedRun:
    """A run that was found right. It holds its arguments, and room for those sent along.

    Made by `prepare_run`; `close` lets go of everything.
    """

    def __init__(self, service: "XlaService", device: Device) -> None:
        self.steps: list[Step] = []
        self.device = device
        self.label = 0
        """The handle of the execution that this is, if it was launched."""
        self.sent_back_bytes = 0
        """Of the results, by their shapes."""
        self._service = service
        self._held: dict[int, Buffer | PendingValue] = {}
        self._donated: list[int] = []
        self._room: Reservation | None = None

    @property
    def pending(self) -> list[PendingValue]:
        """The arguments that other executions are still to give."""
        return [entry for entry in self._held.values() if isinstance(entry, PendingValue)]

    @property
    def name(self) -> str:
        """The names of the programs."""
        return ", ".join(dict.fromkeys(step.compiled.name for step in self.steps))

    def free_donated(self) -> None:
        """Free the handles that are donated; raises as `DataTable.remove_all`."""
        if self._donated:
            donated, self._donated = self._donated, []
            self._service.data.remove_all(donated)

    def reserve(self, cancellation: Cancellation, slots: Slots | None = None) -> Reservation:
        """Reserve memory for all steps; waits and raises as `MemoryQueue.reserve`.

        All of it at once, so that no run waits for memory while it has some.
        """
        size, room, number = self._need()
        try:
            queue = self._service.engine.queue
            return queue.reserve(self._service.data, size, room, cancellation, slots)
        except ResourceExhaustedError as error:
            raise self._located(number, error) from error.__cause__

    def enter(self, on_left: Callable[[Waiter], None]) -> "Reservation | Waiter":
        """Reserve as `reserve` does, but wait without a thread; see `MemoryQueue.enter`."""
        size, room, number = self._need()
        try:
            return self._service.engine.queue.enter(self._service.data, size, room, on_left)
        except ResourceExhaustedError as error:
            raise self._located(number, error) from error.__cause__

    def _need(self) -> tuple[int, ExecutionRoom, int]:
        """Return the bytes to reserve, what for, and the step that needs most."""
        needs = self._needs()[:-1]
        number = needs.index(max(needs))
        return needs[number], self.steps[number].compiled.room, number

    def _needs(self) -> list[int]:
        """Return the bytes that each step needs, with the results before it, and all in the end."""
        needs: list[int] = []
        results: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            needs.append(sum(results.values()) + step.compiled.room.byte_size)
            results[number] = step.result.byte_size
            for done in step.done_with:
                if not self.steps[done].output.is_used:
                    del results[done]
        return [*needs, sum(results.values())]

    @contextlib.contextmanager
    def executing(
        self, cancellation: Cancellation, room: Reservation | None = None
    ) -> Iterator[list[Outcome]]:
        """Run the steps in `room`, which lasts as long as the block, in which results are kept.

        Raises NotYetError when an argument is not there, why it never will be, what running
        raises, and without `room` as `reserve`.
        """
        service, results = self._service, dict[int, Buffer]()
        room = self.reserve(cancellation) if room is None else room
        needs = self._needs()
        outcomes: list[Outcome] = []
        turns = service.engine.turns
        turn = turns.begin(cancellation, service.flow)
        try:
            for number, step in enumerate(self.steps):
                try:
                    if not number:
                        self.free_donated()
                    cancellation.check()
                    outcomes.append(self._execute(number, step, results, cancellation))
                except XlaError as error:
                    raise self._located(number, error) from error.__cause__
                for done in step.done_with:
                    results.pop(done, None)
                room.shrink(max(needs[number + 1 :]))
            results.clear()
            yield outcomes
        finally:
            turns.end(turn)
            room.release()

    def close(self) -> None:
        """Let go of the arguments; harmless when done before."""
        held, self._held = self._held, {}
        if held:
            self._service.data.let_go(list(held.values()))
        if self._room is not None:
            self._room.release()
        # What is remembered of a launched run that has ended must not keep their memory.
        for step in self.steps:
            step.arguments = []

    def _located(self, number: int, error: XlaError) -> XlaError:
        return located(f"step {number}", error) if len(self.steps) > 1 else error

    def _execute(
        self, number: int, step: Step, results: dict[int, Buffer], cancellation: Cancellation
    ) -> Outcome:
        arguments = [_value_of(source, results) for source in step.arguments]
        donated: Sequence[int] = ()
        if step.donated:
            donated = [each for each in step.donated if self._may_overwrite(step, each, arguments)]
        execution = self._service.runner.run(
            step.compiled, arguments, self.device, cancellation, donated, self.label
        )
        output, result = step.output, execution.output
        if step.done_with != [number]:
            results[number] = result
        parts = tuple(
            [
                PartOutcome(part.keep, sent_back(part_of(result, part.path), part.fetch_as))
                for part in output.parts
            ]
        )
        value = sent_back(result, output.fetch_as)
        profile = profile_of(execution, step.compiled)
        return Outcome(output.buffers(result), value, profile, parts)

    def _may_overwrite(self, step: Step, place: int, arguments: Sequence[Buffer]) -> bool:
        """Whether a donated argument is nobody else's."""
        source = step.arguments[place]
        return isinstance(source, _FromStep) or self._service.data.is_held_once(arguments[place])


def prepare_run(service: "XlaService", request: extension_pb2.RunRequest) -> PreparedRun:
    """Check a run and hold its arguments until it is closed.

    Raises InvalidArgumentError for what does not fit, which names the step and the argument;
    NotFoundError for values that never were; ResourceExhaustedError where there is no room for
    the values sent along or no message for those to be sent back.
    """
    run = PreparedRun(service, service.devices.resolve(checked_device(request)))
    if not 1 <= len(request.steps) <= MAX_STEPS:
        raise InvalidArgumentError(
            f"a run must have between 1 and {MAX_STEPS} steps, got {len(request.steps)}"
        )
    try:
        _Preparation(service, run).add(request.steps)
    except BaseException:
        run.close()
        raise
    return run


class _Preparation:
    """Fills a run, step by step."""

    def __init__(self, service: "XlaService", run: PreparedRun) -> None:
        self._service = service
        self._run = run
        self._donations = Donations()
        self._last_use: dict[int, int] = {}
        self._outputs = Outputs(service.limits.max_message_bytes)

    def add(self, steps: Sequence[extension_pb2.RunStep]) -> None:
        # Bytes of the values sent along: as many as arrived, for they must be as their shapes say.
        room = 0
        places: dict[int, tuple[int, int]] = {}
        kinds: list[list[str | None]] = []
        for number, step in enumerate(steps):
            kinds.append([])
            for place, argument in enumerate(step.arguments):
                kind = argument.WhichOneof("source")
                kinds[-1].append(kind)
                if kind == "data":
                    places.setdefault(argument.data.handle, (number, place))
                elif kind == "value":
                    room += argument.value.ByteSize()
        if places:
            self._hold(places)
        if room:
            self._run._room = self._service.data.reserve(room, "values sent along")
        for number, step in enumerate(steps):
            try:
                self._run.steps.append(self._step(number, step, kinds[number]))
            except XlaError as error:
                raise located(f"step {number}", error) from error.__cause__
        self._run.sent_back_bytes = self._outputs.sent_back
        self._finish()

    def _hold(self, places: dict[int, tuple[int, int]]) -> None:
        """Hold the values of these handles, the first wrong one told by its place."""
        handles = list(places)
        try:
            entries = self._service.data.hold(handles)
        except XlaError:
            for handle, (number, place) in places.items():
                try:
                    self._service.data.entry(handle)
                except XlaError as error:
                    raise located(f"step {number}: argument {place}", error) from None
            raise
        self._run._held = dict(zip(handles, entries, strict=True))

    def _step(self, number: int, step: extension_pb2.RunStep, kinds: Sequence[str | None]) -> Step:
        handle = step.executable.handle if step.HasField("executable") else None
        compiled = self._service.runner.compiled_under(handle)
        parameters = compiled.program_shape.parameters
        if len(kinds) != len(parameters):
            raise InvalidArgumentError(
                f"there must be one argument per parameter, got {len(kinds)} for "
                f"{len(parameters)} parameters"
            )
        sources: list[_Source] = []
        donated: list[int] = []
        for place, argument in enumerate(step.arguments):
            try:
                if kinds[place] == "value":
                    # A value sent along is the run's own anyway: nobody is asked to give it up.
                    sources.append(self._inline(argument.value, parameters[place]))
                    continue
                source = self._source(argument, kinds[place], parameters[place])
            except XlaError as error:
                raise located(f"argument {place}", error) from error.__cause__
            sources.append(source)
            if argument.donate:
                donated.append(place)
            if isinstance(source, _FromStep):
                self._last_use[source.step] = number
        if donated or self._donations:
            self._check_donations(number, step, donated)
        output = self._outputs.read(step.output, compiled.program_shape.result)
        return Step(compiled, sources, donated, output)

    def _source(
        self, argument: extension_pb2.RunArgument, kind: str | None, parameter: Shape
    ) -> _Source:
        """What an argument names."""
        if kind is None:
            raise InvalidArgumentError("an argument must say its source, got none")
        source: _Source
        if kind == "data":
            source = self._run._held[argument.data.handle]
            shape = source.shape
        else:
            source = _FromStep(argument.result.step, tuple(argument.result.index))
            shape = self._shape_of(source)
        if shape is not parameter and not same_but_for_layout(shape, parameter):
            raise InvalidArgumentError(
                f"it must have the type and dimensions of its parameter, got {shape} for "
                f"{parameter}"
            )
        return source

    def _inline(self, value: extension_pb2.Value, parameter: Shape) -> Buffer:
        """A value sent along; its layout is only how it was sent."""
        literal = value_from_proto(value, max_bytes=self._service.quotas.device_bytes)
        if not literal.shape.equal(parameter):
            if not literal.shape.compatible(parameter):
                raise InvalidArgumentError(
                    "a value must have the shape of its parameter, got "
                    f"{literal.shape} for {parameter}"
                )
            literal = literal.relayout(parameter)
        return self._service.engine.backend.to_device(literal, self._run.device)

    def _shape_of(self, source: _FromStep) -> Shape:
        done = len(self._run.steps)
        if not 0 <= source.step < done:
            raise InvalidArgumentError(
                f"a step can use the results of those before it, got step {source.step} with "
                f"{done} before"
            )
        return part_shape(self._run.steps[source.step].result, source.path)

    def _check_donations(
        self, number: int, step: extension_pb2.RunStep, donated: Sequence[int]
    ) -> None:
        """Note what the step donates; it must not be used beside that, or later."""
        for place in donated:
            root = _root(step.arguments[place])
            if root is not None:
                self._donations.add(*root, f"argument {place} of step {number}")
                kind, handle = root[0]
                if kind == "handle":
                    self._run._donated.append(handle)
        if self._donations:
            for place, argument in enumerate(step.arguments):
                root = None if argument.donate else _root(argument)
                if root is not None:
                    self._donations.check(*root, f"argument {place} of step {number}")

    def _finish(self) -> None:
        """Find who needs what how long, and that nobody sees what was donated."""
        steps = self._run.steps
        for number, step in enumerate(steps):
            steps[self._last_use.get(number, number)].done_with.append(number)
            if not self._donations:
                continue
            if step.output.sees_whole:
                self._donations.check(("step", number), (), f"the output of step {number}")
            for part in step.output.parts:
                place = f"part {list(part.path)} of the output of step {number}"
                self._donations.check(("step", number), part.path, place)


def _root(argument: extension_pb2.RunArgument) -> "tuple[Root, Path] | None":
    """What an argument names; None for a value of its own."""
    kind = argument.WhichOneof("source")
    if kind == "data":
        return ("handle", argument.data.handle), ()
    if kind == "result":
        return ("step", argument.result.step), tuple(argument.result.index)
    return None


def _value_of(source: _Source, results: dict[int, Buffer]) -> Buffer:
    if isinstance(source, _FromStep):
        return part_of(results[source.step], source.path)
    return source.result() if isinstance(source, PendingValue) else source
