"""Transports of a pipeline to the server; the usual one sends all steps in one message."""

import abc
import asyncio
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from xla_client.runs import run_request
from xla_client.runs.arguments import Argument
from xla_client.runs.background import BackgroundExecution, CallSequence
from xla_client.runs.donation import donated_in_steps
from xla_client.runs.executable import DEFAULT_DEVICE, Executable
from xla_client.runs.execution import Execution, LaunchedExecution
from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_client.session.public_methods import public, public_coroutine
from xla_client.session.session import Session
from xla_client.transport.transport import Pending
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape

INLINE_BYTES = 1 << 20
"""Bound of the arguments that are sent in a pipeline's message, in bytes; the rest is uploaded
first.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A result that the caller keeps or fetches."""

    result: StepResult
    is_fetched: bool

    @property
    def shape(self) -> Shape:
        """The shape, with the layout in which the program gives it."""
        return self.result.shape

    @property
    def is_spread(self) -> bool:
        """True if the elements of the tuple are kept one by one."""
        return not self.is_fetched and run_request.is_flat_tuple(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class StepRecord:
    """Record of a step; `label` names it in messages."""

    pipeline_id: object
    label: str
    executable: Executable[Any]
    arguments: Sequence[Argument]
    donate: Sequence[int] | None
    timeout: float | None

    @property
    def donation(self) -> tuple[Collection[int], Sequence[Argument]]:
        """Parameters that the module donates, none if the caller chose them, and the arguments."""
        parameters = self.executable.donated_parameters if self.donate is None else ()
        return parameters, self.arguments

    def without_values(self) -> "StepRecord":
        """Return the record without the caller's values, which the step has taken."""
        arguments = [
            each if isinstance(each, Buffer | StepResult) else None for each in self.arguments
        ]
        return dataclasses.replace(self, arguments=arguments)


class PipelineTransport(abc.ABC):
    """Transport of a pipeline to the server."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @abc.abstractmethod
    def add(self, recording: StepRecord) -> None:
        """Add a step; raises InvalidArgumentError for what does not fit."""

    @abc.abstractmethod
    def run(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        """Run all; return the outputs."""

    @abc.abstractmethod
    async def arun(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        """Coroutine that runs all steps; cancelling it stops the run."""

    @abc.abstractmethod
    def submit(self, outputs: Sequence[Output], timeout: float | None) -> Execution[Any]:
        """Start the run and return at once; every output must be kept."""


class OneRun(PipelineTransport):
    """One message of Run, or of Launch."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: list[run_request.RunStepMessage] = []
        # Executables and buffers must live until the server has the run.
        self._recordings: list[StepRecord] = []
        self._inline_bytes_left = INLINE_BYTES
        self._generation = session.generation

    def add(self, recording: StepRecord) -> None:
        step = run_request.make_step(
            self._session,
            recording.executable.handle,
            recording.executable.program_shape.parameters,
            recording.arguments,
            donate=recording.donate or (),
            device=DEFAULT_DEVICE,
            timeout=recording.timeout,
            max_bytes=min(self._inline_bytes_left, run_request.INLINE_BYTES),
            pipeline_id=recording.pipeline_id,
            label=recording.label,
        )
        self._inline_bytes_left -= step.inline_bytes
        self._steps.append(step)
        self._recordings.append(recording.without_values())

    def run(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        request = self._request(outputs)
        is_freed = False
        try:
            response = self._call("Run", request, timeout)
            is_freed = True
        finally:
            self._end_donations(is_freed=is_freed)
        return tuple(_fetched(each, timeout) for each in self._received(outputs, response))

    async def arun(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        request = self._request(outputs)
        is_freed = False
        try:
            response = await self._acall(request, timeout)
            is_freed = True
        finally:
            self._end_donations(is_freed=is_freed)
        received = self._received(outputs, response)
        if any(isinstance(each, _Late) for each in received):
            return await asyncio.to_thread(
                lambda: tuple(_fetched(each, timeout) for each in received)
            )
        return tuple(received)

    def submit(self, outputs: Sequence[Output], timeout: float | None) -> Execution[Any]:
        session, request = self._session, self._request(outputs)
        if extension_pb2.CAPABILITY_LAUNCH not in session.transport.capabilities:
            return self._called(outputs, session.start("Run", request, timeout))
        is_freed = False
        try:
            response = self._call("Launch", extension_pb2.LaunchRequest(run=request), timeout)
            is_freed = True
        finally:
            self._end_donations(is_freed=is_freed)
        handles = [iter(each.outputs) for each in response.outputs]
        buffers = tuple(self._kept(each, handles[each.result.step]) for each in outputs)
        limit = session.transport.timeout if timeout is None else timeout
        return LaunchedExecution(session, response.execution.handle, buffers, limit)

    def _called(self, outputs: Sequence[Output], pending: Pending[Any]) -> Execution[Any]:
        """Return the execution of a call of Run that another thread awaits."""
        # Until the call is answered, it is unknown whether the server has the donated handles.
        steps, recordings = list(self._steps), list(self._recordings)
        self._end_donations(is_freed=False)

        def work(calling: CallSequence) -> tuple[Any, ...]:
            response = calling.result(lambda: pending)
            steps.clear()
            recordings.clear()
            return tuple(self._received(outputs, response))

        return BackgroundExecution(work)

    def _request(self, outputs: Sequence[Output]) -> extension_pb2.RunRequest:
        self._donate_by_modules(outputs)
        for output in outputs:
            parts = self._steps[output.result.step].message.output.parts
            if output.is_spread:
                for number in range(len(output.shape.tuple_shapes)):
                    parts.add(index=(*output.result.index, number), keep=True)
            elif output.is_fetched:
                run_request.ask_for(parts.add(index=output.result.index), output.shape)
            else:
                parts.add(index=output.result.index, keep=True)
        return extension_pb2.RunRequest(steps=[step.message for step in self._steps])

    def _donate_by_modules(self, outputs: Sequence[Output]) -> None:
        """Donate the arguments that the modules donate, now that all readers are known."""
        donations = [each.donation for each in self._recordings]
        donated = donated_in_steps(donations, [each.result for each in outputs])
        for step, (_, arguments), numbers in zip(self._steps, donations, donated, strict=True):
            for number in numbers:
                step.message.arguments[number].donate = True
                if isinstance(argument := arguments[number], Buffer):
                    step.donated.append(argument)

    @public
    def _call(self, name: str, request: Message, timeout: float | None) -> Any:
        """Make a call of the steps, in the present session."""
        self._bring_up_to_date(request)
        return self._session.call(name, request, timeout)

    @public_coroutine
    async def _acall(self, request: extension_pb2.RunRequest, timeout: float | None) -> Any:
        """Make a call of Run as `_call` does, without blocking the event loop."""
        if self._generation is not self._session.generation:
            await asyncio.to_thread(self._bring_up_to_date, request)
        return await self._session.acall("Run", request, timeout)

    def _bring_up_to_date(self, request: Any) -> None:
        """Replace handles of executables by those of the current session.

        Compiles the executables of an ended session again. Raises LostError for a step that names a
        value of that session.
        """
        generation = self._session.generation
        if self._generation is generation:
            return
        run = request.run if isinstance(request, extension_pb2.LaunchRequest) else request
        steps = zip(run.steps, self._steps, self._recordings, strict=True)
        for number, (message, step, recording) in enumerate(steps):
            executable = recording.executable
            try:
                for buffer in step.alive:
                    buffer.require_present()
                message.executable.handle = executable.handle
            except XlaError as error:
                raise error.at(f"step {number} ({executable.name})") from error.__cause__
        self._generation = generation

    def _end_donations(self, *, is_freed: bool) -> None:
        for step in self._steps:
            step.end_donation(is_freed=is_freed)
        self._steps.clear()
        self._recordings.clear()

    def _received(
        self, outputs: Sequence[Output], response: extension_pb2.RunResponse
    ) -> list[Any]:
        """Return the values of the outputs, with a _Late for each that did not fit the response."""
        following = [iter(result.parts) for result in response.results]
        received: list[Any] = []
        for output in outputs:
            parts = following[output.result.step]
            if not output.is_fetched:
                received.append(self._kept(output, (part.data for part in parts)))
                continue
            part = next(parts)
            if part.HasField("value"):
                received.append(run_request.fetched(part.value))
            else:
                received.append(_Late(Buffer(self._session, part.data.handle, output.shape)))
        return received

    def _kept(
        self, output: Output, following: Iterator[xla_data_pb2.GlobalDataHandle]
    ) -> Buffer | tuple[Buffer, ...]:
        """Return a kept output, whose handles are the next ones."""
        if not output.is_spread:
            return Buffer(self._session, next(following).handle, output.shape)
        shapes = output.shape.tuple_shapes
        return tuple(Buffer(self._session, next(following).handle, shape) for shape in shapes)


@dataclasses.dataclass(frozen=True, slots=True)
class _Late:
    """A value that is still to be downloaded."""

    buffer: Buffer


def _fetched(value: Any, timeout: float | None) -> Any:
    return value.buffer.to_numpy(timeout=timeout) if isinstance(value, _Late) else value
