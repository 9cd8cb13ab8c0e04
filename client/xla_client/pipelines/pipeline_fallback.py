"""Execution of a pipeline on servers that have no Run: a call for each step."""

import asyncio
from collections.abc import Sequence
from typing import Any

from xla_client.pipelines.pipeline_run import Output, PipelineTransport, StepRecord
from xla_client.runs import run_request
from xla_client.runs.arguments import as_buffer, require_count
from xla_client.runs.background import BackgroundExecution, CallSequence
from xla_client.runs.donation import donated_in_steps
from xla_client.runs.executable import DEFAULT_DEVICE
from xla_client.runs.execution import Execution
from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_client.session.session import Session
from xla_contract.errors import InvalidArgumentError, XlaError


class PipelineFallback(PipelineTransport):
    """A call of Execute for each step."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: list[tuple[StepRecord, list[Buffer | StepResult]]] = []

    def add(self, recording: StepRecord) -> None:
        arguments = recording.arguments
        parameters = recording.executable.program_shape.parameters
        require_count(arguments, parameters)
        run_request.require_numbers(recording.donate or (), len(arguments))
        recorded: list[Buffer | StepResult] = []
        for number, (argument, shape) in enumerate(zip(arguments, parameters, strict=True)):
            try:
                if isinstance(argument, StepResult):
                    argument.require_of(recording.pipeline_id)
                    argument.require_fit(shape)
                    recorded.append(argument)
                else:
                    timeout = recording.timeout
                    recorded.append(
                        as_buffer(self._session, argument, shape, DEFAULT_DEVICE, timeout)
                    )
            except InvalidArgumentError as error:
                raise error.at(f"{recording.label}: argument {number}") from error.__cause__
        self._steps.append((recording, recorded))

    def run(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        return self._run(outputs, timeout, CallSequence())

    async def arun(self, outputs: Sequence[Output], timeout: float | None) -> tuple[Any, ...]:
        calling = CallSequence()
        try:
            return await asyncio.to_thread(self._run, outputs, timeout, calling)
        except asyncio.CancelledError:
            calling.stop()
            raise

    def submit(self, outputs: Sequence[Output], timeout: float | None) -> Execution[Any]:
        return BackgroundExecution(lambda calling: self._run(outputs, timeout, calling))

    def _run(
        self, outputs: Sequence[Output], timeout: float | None, calling: CallSequence
    ) -> tuple[Any, ...]:
        results = _Results()
        by_modules = donated_in_steps(
            [recording.donation for recording, _ in self._steps],
            [output.result for output in outputs],
        )
        for number, (recording, recorded) in enumerate(self._steps):
            executable = recording.executable
            donate = by_modules[number] if recording.donate is None else recording.donate
            try:
                arguments = [
                    results.part(each) if isinstance(each, StepResult) else each
                    for each in recorded
                ]
                results.whole[number] = executable.execute_whole(
                    arguments, donate, timeout, calling.result
                )
            except XlaError as error:
                raise error.at(f"step {number} ({executable.name})") from error.__cause__
        self._steps.clear()
        return tuple(results.given(output, timeout) for output in outputs)


class _Results:
    """The results of steps that were executed by separate calls."""

    def __init__(self) -> None:
        self.whole: dict[int, Buffer] = {}
        self._elements: dict[int, tuple[Buffer, ...]] = {}

    def part(self, result: StepResult) -> Buffer:
        """Return the buffer of a result; raises UnimplementedError for elements of elements."""
        buffer = self.whole[result.step]
        if not result.index:
            return buffer
        if result.step not in self._elements:
            self._elements[result.step] = buffer.deconstruct()
        return self._elements[result.step][result.index[0]]

    def given(self, output: Output, timeout: float | None) -> Any:
        """Return an output in the form in which `run` returns it."""
        buffer = self.part(output.result)
        if output.is_fetched:
            return buffer.to_numpy(timeout=timeout)
        return buffer.deconstruct(timeout=timeout) if output.is_spread else buffer
