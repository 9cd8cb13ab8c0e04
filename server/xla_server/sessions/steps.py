"""Runs: executables one after the other, with arguments sent along or results of steps before.

All of a run is checked before anything of it runs: handles, counts, shapes, layouts, references
to earlier steps and donations.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.literal import Literal
from xla_contract.shape import Shape
from xla_contract.shape_proto import shape_from_proto
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.value_proto import value_from_proto
from xla_server.backends.backend import Buffer, Device, Profile
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.data import Reservation
from xla_server.sessions.devices import DeviceHandle
from xla_server.sessions.donations import Donations, Path, Root
from xla_server.sessions.executables import Compiled
from xla_server.sessions.pending import PendingValue
from xla_server.sessions.records import located
from xla_server.sessions.runner import profile_of

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


@dataclasses.dataclass(frozen=True, slots=True)
class StepOutput:
    """What becomes of a result."""

    keep: bool
    fetch_as: Shape | None
    """The shape, with layout, in which it is sent back, if it is."""
    flatten: bool

    @property
    def is_used(self) -> bool:
        """Whether anybody sees the result but later steps."""
        return self.keep or self.fetch_as is not None

    def shapes(self, result: Shape) -> tuple[Shape, ...]:
        """The shapes of the values that get handles."""
        if not self.keep:
            return ()
        return result.tuple_shapes if self.flatten and result.is_tuple else (result,)

    def buffers(self, result: Buffer) -> tuple[Buffer, ...]:
        """The values that get handles."""
        if not self.keep:
            return ()
        return result.elements if self.flatten and result.shape.is_tuple else (result,)


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
        return self.compiled.executable.program_shape.result


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a step gave."""

    kept: tuple[Buffer, ...]
    value: Literal | None
    profile: Profile


class PreparedRun:
    """A run that was found right. It holds its arguments, and room for those sent along.

    Made by `preparing_run` or `prepare_run`; `close` lets go of everything.
    """

    def __init__(self, service: "XlaService", device: Device) -> None:
        self.steps: list[Step] = []
        self.device = device
        self.label = 0
        """The handle of the execution that this is, if it was launched."""
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

    @contextlib.contextmanager
    def executing(self, cancellation: Cancellation) -> Iterator[list[Outcome]]:
        """Run the steps; their results have room as long as the block, in which they are kept.

        Raises NotYetError when an argument is not there, why it never will be, what running
        raises, and ResourceExhaustedError where there is no room.
        """
        service, results = self._service, dict[int, Buffer]()
        rooms: dict[int, Reservation] = {}
        outcomes: list[Outcome] = []
        try:
            for number, step in enumerate(self.steps):
                try:
                    rooms[number] = service.runner.reserve(step.compiled.executable)
                    if not number:
                        self.free_donated()
                    cancellation.check()
                    outcomes.append(self._execute(number, step, results, cancellation))
                    rooms[number].shrink(step.result.byte_size)
                except XlaError as error:
                    raise self._located(number, error) from error.__cause__
                for done in step.done_with:
                    results.pop(done, None)
                    if not self.steps[done].output.is_used:
                        rooms[done].release()
            results.clear()
            yield outcomes
        finally:
            for room in rooms.values():
                room.release()

    def close(self) -> None:
        """Let go of the arguments; harmless when done before."""
        held, self._held = list(self._held.values()), {}
        self._service.data.let_go(held)
        if self._room is not None:
            self._room.release()

    def _located(self, number: int, error: XlaError) -> XlaError:
        return located(f"step {number}", error) if len(self.steps) > 1 else error

    def _execute(
        self, number: int, step: Step, results: dict[int, Buffer], cancellation: Cancellation
    ) -> Outcome:
        arguments = [_value_of(source, results) for source in step.arguments]
        donated = [place for place in step.donated if self._may_overwrite(step, place, arguments)]
        execution = self._service.runner.run(
            step.compiled.executable, arguments, self.device, cancellation, donated, self.label
        )
        output, result = step.output, execution.output
        if step.done_with != [number]:
            results[number] = result
        value = None
        if output.fetch_as is not None:
            is_laid_out = output.fetch_as.equal(result.shape)
            value = result.to_literal(None if is_laid_out else output.fetch_as)
        return Outcome(output.buffers(result), value, profile_of(execution, step.compiled))

    def _may_overwrite(self, step: Step, place: int, arguments: Sequence[Buffer]) -> bool:
        """Whether a donated argument is nobody else's."""
        source = step.arguments[place]
        return isinstance(source, _FromStep) or self._service.data.is_held_once(arguments[place])


@contextlib.contextmanager
def preparing_run(
    service: "XlaService", request: extension_pb2.RunRequest
) -> Iterator[PreparedRun]:
    """As `prepare_run`; lets go of the run at the end of the block."""
    run = prepare_run(service, request)
    try:
        yield run
    finally:
        run.close()


def prepare_run(service: "XlaService", request: extension_pb2.RunRequest) -> PreparedRun:
    """Check a run and hold its arguments until it is closed.

    Raises InvalidArgumentError for what does not fit, which names the step and the argument;
    NotFoundError for values that never were; ResourceExhaustedError where there is no room for
    the values sent along or no message for those to be sent back.
    """
    device_handle = None
    if request.HasField("device_handle"):
        asked = request.device_handle
        device_handle = DeviceHandle(asked.handle, asked.device_count)
    run = PreparedRun(service, service.devices.resolve(device_handle))
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
        self._sent_back = 0

    def add(self, steps: Sequence[extension_pb2.RunStep]) -> None:
        self._hold(steps)
        room = _inline_bytes(steps)
        if room:
            self._run._room = self._service.data.reserve(room, "values sent along")
        for number, step in enumerate(steps):
            try:
                self._run.steps.append(self._step(number, step))
            except XlaError as error:
                raise located(f"step {number}", error) from error.__cause__
        self._finish()

    def _hold(self, steps: Sequence[extension_pb2.RunStep]) -> None:
        """Hold the values that the steps name, the first wrong one told by its place."""
        places: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(steps):
            for place, argument in enumerate(step.arguments):
                if argument.WhichOneof("source") == "data":
                    places.setdefault(argument.data.handle, (number, place))
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

    def _step(self, number: int, step: extension_pb2.RunStep) -> Step:
        handle = step.executable.handle if step.HasField("executable") else None
        compiled = self._service.runner.compiled_under(handle)
        parameters = compiled.executable.program_shape.parameters
        if len(step.arguments) != len(parameters):
            raise InvalidArgumentError(
                f"there must be one argument per parameter, got {len(step.arguments)} for "
                f"{len(parameters)} parameters"
            )
        sources: list[_Source] = []
        for place, argument in enumerate(step.arguments):
            try:
                sources.append(self._source(argument, parameters[place]))
            except XlaError as error:
                raise located(f"argument {place}", error) from error.__cause__
        # A value sent along is the run's own anyway.
        donated = [
            place
            for place, argument in enumerate(step.arguments)
            if argument.donate and argument.WhichOneof("source") != "value"
        ]
        self._check_donations(number, step, donated)
        for source in sources:
            if isinstance(source, _FromStep):
                self._last_use[source.step] = number
        output = self._output(step.output, compiled.executable.program_shape.result)
        return Step(compiled, sources, donated, output)

    def _source(self, argument: extension_pb2.RunArgument, parameter: Shape) -> _Source:
        kind = argument.WhichOneof("source")
        if kind == "value":
            return self._inline(argument.value, parameter)
        if kind is None:
            raise InvalidArgumentError("an argument must say its source, got none")
        source: _Source
        if kind == "data":
            source = self._run._held[argument.data.handle]
            shape = source.shape
        else:
            source = _FromStep(argument.result.step, tuple(argument.result.index))
            shape = self._shape_of(source)
        if shape is not parameter and not shape.equal(parameter):
            raise InvalidArgumentError(
                f"it must equal its compiled parameter, layout included, got {shape} for "
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
        shape = self._run.steps[source.step].result
        for index in source.path:
            if not shape.is_tuple or not 0 <= index < len(shape.tuple_shapes):
                raise InvalidArgumentError(
                    f"an index must lead to an element, got {list(source.path)} into "
                    f"{self._run.steps[source.step].result}"
                )
            shape = shape.tuple_shapes[index]
        return shape

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

    def _output(self, output: extension_pb2.RunOutput, result: Shape) -> StepOutput:
        if output.fetch_bytes < 0:
            raise InvalidArgumentError(
                f"fetch_bytes must not be negative, got {output.fetch_bytes}"
            )
        fetch_as = None
        if output.HasField("shape_with_layout"):
            fetch_as = shape_from_proto(output.shape_with_layout)
            if not fetch_as.has_layout:
                raise InvalidArgumentError(
                    f"shape_with_layout must say its layout, got {fetch_as} without"
                )
            if not fetch_as.compatible(result):
                raise InvalidArgumentError(
                    "shape_with_layout must be compatible with the result, got "
                    f"{fetch_as} for {result}"
                )
        if not output.fetch_bytes:
            return StepOutput(output.keep, None, output.flatten)
        if result.byte_size > output.fetch_bytes:
            return StepOutput(True, None, output.flatten)
        self._sent_back += result.byte_size
        limit = self._service.limits.max_message_bytes
        if self._sent_back > limit:
            raise ResourceExhaustedError(
                f"a message may take {limit} bytes, got results of {self._sent_back} to be sent "
                "back",
                hint="Keep large results and download them.",
            )
        if fetch_as is None:
            fetch_as = _row_major(result)
        return StepOutput(output.keep, fetch_as, output.flatten)

    def _finish(self) -> None:
        """Find who needs what how long, and that nobody sees what was donated."""
        steps = self._run.steps
        for number, step in enumerate(steps):
            steps[self._last_use.get(number, number)].done_with.append(number)
            if self._donations and step.output.is_used:
                self._donations.check(("step", number), (), f"the output of step {number}")


@functools.lru_cache(maxsize=1024)
def _row_major(shape: Shape) -> Shape:
    return shape.without_layout().with_default_layout()


def _root(argument: extension_pb2.RunArgument) -> "tuple[Root, Path] | None":
    """What an argument names; None for a value of its own."""
    kind = argument.WhichOneof("source")
    if kind == "data":
        return ("handle", argument.data.handle), ()
    if kind == "result":
        return ("step", argument.result.step), tuple(argument.result.index)
    return None


def _inline_bytes(steps: Sequence[extension_pb2.RunStep]) -> int:
    """Bytes of the values sent along: as many as arrived, for they must be as their shapes say."""
    return sum(
        argument.value.ByteSize()
        for step in steps
        for argument in step.arguments
        if argument.WhichOneof("source") == "value"
    )


def _value_of(source: _Source, results: dict[int, Buffer]) -> Buffer:
    if isinstance(source, _FromStep):
        value = results[source.step]
        for index in source.path:
            value = value.elements[index]
        return value
    return source.result() if isinstance(source, PendingValue) else source
