"""Several executions in one round trip, the later ones with results of the earlier.

What is recorded becomes one message of Run. A server that cannot do that is called step by step.
"""

import abc
import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from xla_client import runs
from xla_client._session import Session
from xla_client.arguments import Argument, as_buffer, require_count
from xla_client.buffer import Buffer
from xla_client.executable import Executable
from xla_client.step_result import StepResult
from xla_contract.errors import FailedPreconditionError, InvalidArgumentError, XlaError
from xla_contract.shape import Shape
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

MAX_STEPS = 1024
"""Of one pipeline, as the contract says."""

INLINE_BYTES = 1 << 20
"""Of arguments that are sent along with a pipeline; what is more is uploaded first."""

_NEEDED = {extension_pb2.CAPABILITY_RUN, extension_pb2.CAPABILITY_RUN_PARTS}
_DEVICE = 0


class Pipeline:
    """Executions to be run one after the other in one round trip, from `Client.pipeline`.

        p = client.pipeline()
        hidden = p.call(encode, images)
        loss, weights = p.call(train, hidden, labels, old_weights)
        p.fetch(loss)
        p.keep(weights)
        loss, weights = p.run()

    It is all or nothing: the first error of a step is raised, naming the step, and nothing is kept.
    A pipeline is recorded by one thread and runs once.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        can_run = session.transport.capabilities >= _NEEDED
        self._way: _Way = _OneRun(session) if can_run else _Calls(session)
        self._executables: list[Executable] = []
        self._outputs: list[_Output] = []
        self._is_over = False

    def call(
        self,
        executable: Executable,
        *arguments: Argument,
        donate: Sequence[int] = (),
        timeout: float | None = None,
    ) -> StepResult:
        """Add a step: a program with arguments, which may be results of steps before.

        Other arguments and `donate` are as in a call of the Executable. Small ones are copied
        and go along; large ones are uploaded now, for which there is `timeout`. Raises
        InvalidArgumentError, naming step and argument, for what does not fit.
        """
        self._require_open("take another step")
        number = len(self._executables)
        place = f"step {number} ({executable.name})"
        try:
            if number >= MAX_STEPS:
                raise InvalidArgumentError(
                    f"a pipeline must have at most {MAX_STEPS} steps, got one more"
                )
            if not executable.is_of(self._session):
                raise InvalidArgumentError(
                    "a pipeline must call executables of its own client, got one of another"
                )
            self._way.add(_Recording(self, place, timeout), executable, arguments, donate)
        except XlaError as error:
            raise error.at(place) from error.__cause__
        # It must live until the run.
        self._executables.append(executable)
        return StepResult(self, number, executable.program_shape.result)

    def keep(self, result: StepResult) -> None:
        """Keep a result on the device: `run` gives a Buffer, for a flat tuple one per element."""
        self._add_output(result, is_fetched=False)

    def fetch(self, result: StepResult) -> None:
        """Send a result back: `run` gives its arrays.

        One of more than a MiB takes a round trip of its own.
        """
        self._add_output(result, is_fetched=True)

    def run(self, *, timeout: float | None = None) -> tuple[Any, ...]:
        """Run the steps; gives what was kept and fetched, in the order in which that was said."""
        self._begin()
        if not self._executables:
            return ()
        return self._way.run(self._outputs, timeout)

    async def arun(self, *, timeout: float | None = None) -> tuple[Any, ...]:
        """As `run`, without holding up the event loop; cancelling it stops the run."""
        self._begin()
        if not self._executables:
            return ()
        return await self._way.arun(self._outputs, timeout)

    def __len__(self) -> int:
        return len(self._executables)

    def __repr__(self) -> str:
        names = ", ".join(executable.name for executable in self._executables)
        return f"Pipeline({names})"

    def _add_output(self, result: StepResult, *, is_fetched: bool) -> None:
        self._require_open("keep or fetch more")
        result.require_of(self)
        self._outputs.append(_Output(result, is_fetched))

    def _begin(self) -> None:
        self._require_open("run")
        self._is_over = True

    def _require_open(self, what: str) -> None:
        if self._is_over:
            raise FailedPreconditionError(
                f"a pipeline must not have run to {what}, got one that has"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class _Output:
    """A result that is asked for."""

    result: StepResult
    is_fetched: bool

    @property
    def shape(self) -> Shape:
        return self.result.shape

    @property
    def is_spread(self) -> bool:
        """Whether it is kept as its elements."""
        return not self.is_fetched and runs.is_flat_tuple(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class _Recording:
    """What a step is added with."""

    pipeline: Pipeline
    place: str
    timeout: float | None


class _Way(abc.ABC):
    """How a pipeline gets to the server."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @abc.abstractmethod
    def add(
        self,
        recording: _Recording,
        executable: Executable,
        arguments: Sequence[Argument],
        donate: Sequence[int],
    ) -> None:
        """Add a step; raises InvalidArgumentError for what does not fit."""

    @abc.abstractmethod
    def run(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        """Run all."""

    @abc.abstractmethod
    async def arun(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        """Run all, without holding up the event loop."""


class _OneRun(_Way):
    """One message of Run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: list[runs.Step] = []
        self._room = INLINE_BYTES

    def add(
        self,
        recording: _Recording,
        executable: Executable,
        arguments: Sequence[Argument],
        donate: Sequence[int],
    ) -> None:
        step = runs.make_step(
            self._session,
            executable.handle,
            executable.program_shape.parameters,
            arguments,
            donate=donate,
            device=_DEVICE,
            timeout=recording.timeout,
            room=min(self._room, runs.INLINE_BYTES),
            pipeline=recording.pipeline,
            place=recording.place,
        )
        self._room -= step.inline_bytes
        self._steps.append(step)

    def run(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        request = self._request(outputs)
        is_freed = False
        try:
            response = self._session.call("Run", request, timeout)
            is_freed = True
        finally:
            self._end_donations(is_freed=is_freed)
        kept = self._received(outputs, response)
        return tuple(_fetched(each, timeout) for each in kept)

    async def arun(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        request = self._request(outputs)
        is_freed = False
        try:
            response = await self._session.acall("Run", request, timeout)
            is_freed = True
        finally:
            self._end_donations(is_freed=is_freed)
        kept = self._received(outputs, response)
        if any(isinstance(each, _Late) for each in kept):
            return await asyncio.to_thread(lambda: tuple(_fetched(each, timeout) for each in kept))
        return tuple(kept)

    def _request(self, outputs: Sequence[_Output]) -> extension_pb2.RunRequest:
        for output in outputs:
            parts = self._steps[output.result.step].message.output.parts
            if output.is_spread:
                for number in range(len(output.shape.tuple_shapes)):
                    parts.add(index=(*output.result.index, number), keep=True)
            elif output.is_fetched:
                runs.ask_for(parts.add(index=output.result.index), output.shape)
            else:
                parts.add(index=output.result.index, keep=True)
        return extension_pb2.RunRequest(steps=[step.message for step in self._steps])

    def _end_donations(self, *, is_freed: bool) -> None:
        for step in self._steps:
            step.end_donation(is_freed=is_freed)
        self._steps.clear()

    def _received(
        self, outputs: Sequence[_Output], response: extension_pb2.RunResponse
    ) -> list[Any]:
        """What came of the outputs, with a _Late for what was too large to come along."""
        following = [iter(result.parts) for result in response.results]
        received: list[Any] = []
        for output in outputs:
            parts = following[output.result.step]
            if output.is_spread:
                shapes = output.shape.tuple_shapes
                received.append(tuple(self._buffer(next(parts), shape) for shape in shapes))
                continue
            part = next(parts)
            if output.is_fetched and part.HasField("value"):
                received.append(runs.fetched(part.value))
            elif output.is_fetched:
                received.append(_Late(self._buffer(part, output.shape)))
            else:
                received.append(self._buffer(part, output.shape))
        return received

    def _buffer(self, part: extension_pb2.RunPartResult, shape: Shape) -> Buffer:
        return Buffer(self._session, part.data.handle, shape)


@dataclasses.dataclass(frozen=True, slots=True)
class _Late:
    """A value that is still to be downloaded."""

    buffer: Buffer


def _fetched(value: Any, timeout: float | None) -> Any:
    return value.buffer.to_numpy(timeout=timeout) if isinstance(value, _Late) else value


class _Calls(_Way):
    """A call for each step, to servers that have no Run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: list[tuple[Executable, list[Buffer | StepResult], Sequence[int]]] = []

    def add(
        self,
        recording: _Recording,
        executable: Executable,
        arguments: Sequence[Argument],
        donate: Sequence[int],
    ) -> None:
        parameters = executable.program_shape.parameters
        require_count(arguments, parameters)
        runs.require_numbers(donate, len(arguments))
        recorded: list[Buffer | StepResult] = []
        for number, (argument, shape) in enumerate(zip(arguments, parameters, strict=True)):
            try:
                if isinstance(argument, StepResult):
                    argument.require_of(recording.pipeline)
                    argument.require_equal(shape)
                    recorded.append(argument)
                else:
                    timeout = recording.timeout
                    recorded.append(as_buffer(self._session, argument, shape, _DEVICE, timeout))
            except InvalidArgumentError as error:
                raise error.at(f"{recording.place}: argument {number}") from error.__cause__
        self._steps.append((executable, recorded, donate))

    def run(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        results = _Results()
        for number, (executable, recorded, donate) in enumerate(self._steps):
            try:
                arguments = [
                    results.part(each) if isinstance(each, StepResult) else each
                    for each in recorded
                ]
                results.whole[number] = executable.execute_whole(arguments, donate, timeout)
            except XlaError as error:
                raise error.at(f"step {number} ({executable.name})") from error.__cause__
        self._steps.clear()
        return tuple(results.given(output, timeout) for output in outputs)

    async def arun(self, outputs: Sequence[_Output], timeout: float | None) -> tuple[Any, ...]:
        return await asyncio.to_thread(self.run, outputs, timeout)


class _Results:
    """The results of steps that were called one by one."""

    def __init__(self) -> None:
        self.whole: dict[int, Buffer] = {}
        self._elements: dict[int, tuple[Buffer, ...]] = {}

    def part(self, result: StepResult) -> Buffer:
        """The buffer of a result; UnimplementedError for elements of elements."""
        buffer = self.whole[result.step]
        if not result.index:
            return buffer
        if result.step not in self._elements:
            self._elements[result.step] = buffer.deconstruct()
        return self._elements[result.step][result.index[0]]

    def given(self, output: _Output, timeout: float | None) -> Any:
        """An output as `run` gives it."""
        buffer = self.part(output.result)
        if output.is_fetched:
            return buffer.to_numpy(timeout=timeout)
        return buffer.deconstruct(timeout=timeout) if output.is_spread else buffer
