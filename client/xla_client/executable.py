"""Compiled programs, and running them."""

from collections.abc import Callable, Sequence
from typing import Any

from xla_client import runs
from xla_client._errors import error_of_status
from xla_client._session import Session
from xla_client._transport import Pending
from xla_client.arguments import Argument, on_device
from xla_client.buffer import Buffer, unpacked
from xla_client.execution import CalledExecution, Execution, LaunchedExecution
from xla_client.run_template import RunTemplate
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.literal import Array, Nested
from xla_contract.shape import ProgramShape
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs.xla_extension_pb2 import (
    CAPABILITY_LAUNCH,
    CAPABILITY_RUN,
    LaunchRequest,
    RunBatchRequest,
    RunResult,
)

_DEFAULT_DEVICE = 0

_BATCH = 128
"""Runs of one message."""


class Executable:
    """A compiled program on the server's default device.

    It is freed by `delete`, some time after it is garbage collected, or when its client closes.
    """

    def __init__(
        self, session: Session, handle: int, name: str, program_shape: ProgramShape
    ) -> None:
        self._session = session
        self._handle = handle
        self._name = name
        self._program_shape = program_shape
        self._finalizer = session.hold(self, handle, 0)
        self._template: RunTemplate | None = None

    @property
    def program_shape(self) -> ProgramShape:
        """The signature with the layouts it was compiled for."""
        return self._program_shape

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self._name

    @property
    def handle(self) -> int:
        """The execution handle on the wire; raises InvalidArgumentError once deleted."""
        if not self._finalizer.alive:
            raise InvalidArgumentError(
                f"an executable must be alive to be used, got the deleted {self._name!r}"
            )
        return self._handle

    def __call__(
        self, *arguments: Argument, donate: Sequence[int] = (), timeout: float | None = None
    ) -> runs.Results:
        """Run the program; the result stays on the server.

        Buffers are used where they lie; anything else goes along, or is uploaded first if it is
        large. A tuple comes back as a tuple of buffers; a tuple that holds tuples as the one
        buffer it is. `donate` are the numbers of arguments that are given up: the result may take
        their memory, and Buffers among them are deleted. Raises InvalidArgumentError for
        arguments that do not fit, and what the run raises.
        """
        result = self._program_shape.result
        if self._has(CAPABILITY_RUN) and (donate or not self._is_plain(arguments)):
            step = self.step(arguments, donate, timeout)
            runs.keep(step.message, result)
            answer = self._run(step, timeout)
            return runs.kept(self._session, [each.handle for each in answer.outputs], result)
        return unpacked(self.execute_whole(arguments, donate, timeout), timeout=timeout)

    def run(
        self, *arguments: Argument, donate: Sequence[int] = (), timeout: float | None = None
    ) -> Nested:
        """Run the program and fetch the result: an array, or (nested) tuples of arrays.

        As a call otherwise. Small arguments and a small result take one round trip.
        """
        result = self._program_shape.result
        if not self._has(CAPABILITY_RUN):
            return self.execute_whole(arguments, donate, timeout).to_numpy(timeout=timeout)
        request = None if donate else self._plain_request(arguments)
        if request is not None:
            answer = self._session.call("Run", request, timeout)
            return runs.fetched(answer.results[0].value)
        step = self.step(arguments, donate, timeout)
        if result.byte_size <= runs.FETCH_BYTES:
            runs.fetch(step.message, result)
            return runs.fetched(self._run(step, timeout).value)
        step.message.output.keep = True
        (output,) = self._run(step, timeout).outputs
        return Buffer(self._session, output.handle, result).to_numpy(timeout=timeout)

    def run_batch(
        self,
        batch: Sequence[Sequence[Argument]],
        *,
        return_exceptions: bool = False,
        timeout: float | None = None,
    ) -> list[Any]:
        """Run the program on each of several lists of arguments at the same time.

        Gives what `run` would, in order. When runs fail the first error is raised, or, with
        `return_exceptions`, stands in place of their results.
        """
        if self._has(CAPABILITY_RUN) and self._program_shape.result.byte_size <= runs.FETCH_BYTES:
            outcomes = self._run_batches(batch, timeout)
        else:
            outcomes = [self._outcome(arguments, timeout) for arguments in batch]
        if not return_exceptions:
            for outcome in outcomes:
                if isinstance(outcome, XlaError):
                    raise outcome
        return outcomes

    def submit(
        self, *arguments: Argument, donate: Sequence[int] = (), timeout: float | None = None
    ) -> Execution:
        """Start a run and return at once; `timeout` limits the run itself.

        An Execution may be an argument, as its buffers may, before it has a result.
        """
        given = [one.buffers if isinstance(one, Execution) else one for one in arguments]
        session, result = self._session, self._program_shape.result
        if not self._has(CAPABILITY_LAUNCH):
            runs.require_numbers(donate, len(given))
            buffers = self._on_device(given, timeout)
            pending = session.start("Execute", self._request(buffers), timeout)
            execution = CalledExecution(session, pending, result, buffers)
            for number in donate:
                buffers[number].give_up(is_freed=False)
            return execution
        step = self.step(given, donate, timeout)
        runs.keep(step.message, result)
        request = LaunchRequest(run=step.request)
        response = step.calling(lambda: session.call("Launch", request, timeout))
        handles = [each.handle for each in response.outputs[0].outputs]
        limit = session.transport.timeout if timeout is None else timeout
        outputs = runs.kept(session, handles, result)
        return LaunchedExecution(session, response.execution.handle, outputs, limit)

    def delete(self, *, timeout: float | None = None) -> None:
        """Free the program now; a second call does nothing."""
        if self._finalizer.detach() is not None:
            self._session.delete(self._handle, timeout)

    def is_of(self, session: Session) -> bool:
        """Whether it was compiled in this session, by this client."""
        return self._session is session

    def step(
        self, arguments: Sequence[Argument], donate: Sequence[int], timeout: float | None
    ) -> runs.Step:
        """The step of a run of this program, as `runs.make_step` gives it."""
        return runs.make_step(
            self._session,
            self.handle,
            self._program_shape.parameters,
            arguments,
            donate=donate,
            device=_DEFAULT_DEVICE,
            timeout=timeout,
        )

    def _has(self, capability: int) -> bool:
        return capability in self._session.transport.capabilities

    def _is_plain(self, arguments: Sequence[Argument]) -> bool:
        """Whether Execute does it in one round trip."""
        return not runs.is_flat_tuple(self._program_shape.result) and all(
            isinstance(argument, Buffer) for argument in arguments
        )

    def _plain_request(self, arguments: Sequence[Argument]) -> bytes | None:
        """A run with small arrays that sends its result back; None where it is not that."""
        template, result = self._template, self._program_shape.result
        if not self.handle or result.byte_size > runs.FETCH_BYTES:
            return None
        if template is None:

            def encode(arrays: Sequence[Array]) -> bytes:
                step = self.step(arrays, (), None)
                runs.fetch(step.message, result)
                data: bytes = step.request.SerializeToString()
                return data

            parameters = self._program_shape.parameters
            template = self._template = RunTemplate(parameters, encode, runs.INLINE_BYTES)
        return template.request(arguments)

    def _run(self, step: runs.Step, timeout: float | None) -> RunResult:
        response = step.calling(lambda: self._session.call("Run", step.request, timeout))
        result: RunResult = response.results[0]
        return result

    def _run_batches(self, batch: Sequence[Sequence[Argument]], timeout: float | None) -> list[Any]:
        outcomes: list[Any] = []
        for first in range(0, len(batch), _BATCH):
            steps = [self.step(each, (), timeout) for each in batch[first : first + _BATCH]]
            for step in steps:
                runs.fetch(step.message, self._program_shape.result)
            request = RunBatchRequest(runs=[step.request for step in steps])
            response = self._session.call("RunBatch", request, timeout)
            for step in steps:
                step.end_donation(is_freed=False)
            outcomes += [
                error_of_status("RunBatch", each.status)
                if each.WhichOneof("outcome") == "status"
                else runs.fetched(each.response.results[0].value)
                for each in response.outcomes
            ]
        return outcomes

    def _outcome(self, arguments: Sequence[Argument], timeout: float | None) -> Any:
        try:
            return self.run(*arguments, timeout=timeout)
        except XlaError as error:
            return error

    def execute_whole(
        self,
        arguments: Sequence[Argument],
        donate: Sequence[int],
        timeout: float | None,
        wait: "Callable[[Callable[[], Pending[Any]]], Any] | None" = None,
    ) -> Buffer:
        """Run the program by Execute; gives its result as the one buffer it is, tuple or not.

        With `wait` the call is started by what it is given, and its response is what that gives.
        """
        runs.require_numbers(donate, len(arguments))
        buffers = self._on_device(arguments, timeout)
        request, session = self._request(buffers), self._session
        if wait is None:
            response = session.call("Execute", request, timeout)
        else:
            response = wait(lambda: session.start("Execute", request, timeout))
        for number in donate:
            buffers[number].give_up(is_freed=False)
        return Buffer(session, response.output.handle, self._program_shape.result)

    def _on_device(self, arguments: Sequence[Argument], timeout: float | None) -> list[Buffer]:
        parameters = self._program_shape.parameters
        return on_device(self._session, arguments, parameters, _DEFAULT_DEVICE, timeout)

    def _request(self, buffers: list[Buffer]) -> xla_pb2.ExecuteRequest:
        return xla_pb2.ExecuteRequest(
            handle=xla_data_pb2.ExecutionHandle(handle=self.handle),
            arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
        )

    def __repr__(self) -> str:
        return f"Executable({self._name!r}, {self._program_shape})"
