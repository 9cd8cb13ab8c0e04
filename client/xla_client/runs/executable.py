"""Compiled programs, and running them."""

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, cast, overload

from xla_client.coercion.parameters import parameter_class
from xla_client.display.tables import human_bytes, records
from xla_client.runs import run_request as runs
from xla_client.runs.arguments import Argument, on_device, without_executions
from xla_client.runs.background import BackgroundExecution, CallSequence
from xla_client.runs.donation import donated_arguments
from xla_client.runs.execution import Execution, ExecutionProfile, LaunchedExecution
from xla_client.runs.gathered_runs import BatchedRuns, GatheredRuns
from xla_client.runs.introspection import Explainable
from xla_client.runs.run_template import RunTemplate
from xla_client.runs.sharded import ShardedRuns
from xla_client.session.buffer import Buffer, unpacked
from xla_client.session.public_methods import public, public_coroutine
from xla_client.session.session import Session
from xla_client.transport.transport import Pending
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs.xla_extension_pb2 import (
    CAPABILITY_LAUNCH,
    CAPABILITY_RUN,
    LaunchRequest,
    RunResult,
)
from xla_contract.types.literal import Array
from xla_contract.types.shape import ProgramShape

if TYPE_CHECKING:
    # Its default is what Python has from 3.13 on.
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Buffer)
else:
    from typing import TypeVar

    R = TypeVar("R")

DEFAULT_DEVICE = 0
"""The device of runs that name none: XLA's default device."""


@parameter_class
class Executable(Explainable, ShardedRuns, BatchedRuns, Generic[R]):
    """A compiled program on the server's default device, or on those of a mesh.

    A call returns an R: a Buffer, or a tuple of them if `compile` had `returns=tuple`.
    It is freed by `delete`, some time after it is garbage collected, or when its client closes.
    """

    def __init__(
        self,
        session: Session,
        handle: int,
        name: str,
        program_shape: ProgramShape,
        source: Callable[[], xla_pb2.CompileRequest] | None = None,
        donated: frozenset[int] = frozenset(),
    ) -> None:
        """`source` returns the request that compiles the program again if the server lost it.

        `donated` are the parameters that its module donates by itself.
        """
        self._donated = donated
        self._session = session
        self._source = source
        self._generation = session.generation
        self._compiling = threading.Lock()
        self._handle = handle
        self._name = name
        self._program_shape = program_shape
        self._finalizer = session.hold(self, handle, 0)
        self._template: RunTemplate | None = None
        self._gathered = GatheredRuns(session)

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
        """The execution handle on the wire; another one after a restart of the server.

        Raises:
            InvalidArgumentError: The executable was deleted.
            LostError: The server lost an adopted executable; others are compiled again.
        """
        if not self._finalizer.alive:
            raise InvalidArgumentError(
                f"an executable must be alive to be used, got the deleted {self._name!r}"
            )
        if self._generation is not self._session.generation:
            self._compile_anew()
        return self._handle

    def _compile_anew(self) -> None:
        """Compile the program in the present session."""
        session = self._session
        with self._compiling:
            generation = session.generation
            if self._generation is generation:
                return
            if self._source is None:
                raise session.lost(f"the executable {self._name!r}, which was adopted")
            handle = int(session.call("Compile", self._source()).handle.handle)
            last, self._finalizer = self._finalizer, session.hold(self, handle, 0)
            last.detach()
            self._handle, self._template = handle, None
            self._generation = generation

    @public
    def __call__(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> R:
        """Run the program, and leave its result on the server.

        Args:
            arguments: One for each parameter: a Buffer, an Execution, or a value, which is sent
                along, or uploaded first if it is large.
            donate: The numbers of donated arguments: the result may take their memory, and Buffers
                among them are deleted. `()` donates none, and None the Buffers for parameters that
                the module permits (`input_output_alias`, `buffer_donor`: JAX's `donate_argnums`).
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            A Buffer; for a tuple, a tuple of Buffers; for a tuple that holds tuples, one Buffer.

        Raises:
            InvalidArgumentError: An argument, which is named, does not fit its parameter.
            XlaError: The run failed.
        """
        result = self._program_shape.result
        passed, donate = self._run_arguments(arguments, donate)
        kept: Any
        if self._has(CAPABILITY_RUN) and (donate or not self._is_plain(passed)):
            step = self.step(passed, donate, timeout)
            runs.keep(step.message, result)
            answer = self._run(step, timeout)
            kept = runs.kept(self._session, [each.handle for each in answer.outputs], result)
        else:
            kept = unpacked(self.execute_whole(passed, donate, timeout), timeout=timeout)
        return cast(R, kept)

    @overload
    def run(
        self: "Executable[tuple[Buffer, ...]]",
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> tuple[Array, ...]: ...

    @overload
    def run(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Array: ...

    @public
    def run(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run the program, and fetch its result.

        Args:
            arguments: One for each parameter, as in a call.
            donate: The numbers of donated arguments, as in a call.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            A read-only array, or (nested) tuples of arrays.

        Raises:
            InvalidArgumentError: An argument, which is named, does not fit its parameter.
            XlaError: The run failed.
        """
        result = self._program_shape.result
        passed, donate = self._run_arguments(arguments, donate)
        if not self._has(CAPABILITY_RUN):
            return self.execute_whole(passed, donate, timeout).to_numpy(timeout=timeout)
        request = None if donate else self._plain_request(passed)
        if request is not None:
            answer = self._session.call("Run", request, timeout)
            return runs.fetched(answer.results[0].value)
        step = self.step(passed, donate, timeout)
        if result.byte_size <= runs.FETCH_BYTES:
            runs.fetch(step.message, result)
            return runs.fetched(self._run(step, timeout).value)
        step.message.output.keep = True
        (output,) = self._run(step, timeout).outputs
        return Buffer(self._session, output.handle, result).to_numpy(timeout=timeout)

    @overload
    async def arun(
        self: "Executable[tuple[Buffer, ...]]",
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> tuple[Array, ...]: ...

    @overload
    async def arun(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Array: ...

    @public_coroutine
    async def arun(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return what `run` does, without blocking the event loop; cancelling it gives the run up.

        Runs without a timeout that are begun in one turn of the event loop, as by `asyncio.gather`,
        share messages, and are answered together.
        """
        converted = functools.partial(self._run_arguments, arguments, donate)
        # On a server without launches an execution has its buffers only when it has ended.
        passed, numbers = (
            converted() if self._has(CAPABILITY_LAUNCH) else await asyncio.to_thread(converted)
        )
        if not self._has(CAPABILITY_RUN) or not self._is_small(passed):
            work = functools.partial(self.run, *passed, donate=numbers, timeout=timeout)
            return await asyncio.to_thread(work)
        if self._generation is not self._session.generation:
            await asyncio.to_thread(self._compile_anew)
        if timeout is None and self._session.transport.timeout is None and not numbers:
            request = self._plain_request(passed)
            if request is None:
                request = self._fetching(passed, (), None).request.SerializeToString()
            return runs.fetched((await self._gathered.run(request)).value)
        step, is_freed = self._fetching(passed, numbers, timeout), False
        try:
            answer = await self._session.acall("Run", step.request, timeout)
            is_freed = True
        finally:
            step.end_donation(is_freed=is_freed)
        return runs.fetched(answer.results[0].value)

    def _fetching(
        self, arguments: Sequence[Argument], donate: Sequence[int], timeout: float | None
    ) -> runs.RunStepMessage:
        """The step of a run whose result is sent back."""
        step = self.step(arguments, donate, timeout)
        runs.fetch(step.message, self._program_shape.result)
        return step

    def _is_small(self, arguments: Sequence[Argument]) -> bool:
        """Return whether arguments and result fit into one message."""
        parameters = self._program_shape.parameters
        sent = sum(
            shape.byte_size
            for argument, shape in zip(arguments, parameters, strict=False)
            if not isinstance(argument, Buffer)
        )
        return (
            sent <= runs.INLINE_BYTES and self._program_shape.result.byte_size <= runs.FETCH_BYTES
        )

    @public
    def submit(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Execution[R]:
        """Start a run, and return at once.

        Args:
            arguments: One for each parameter, as in a call. Executions need not have results yet.
            donate: The numbers of donated arguments, as in a call.
            timeout: Seconds that the run itself may take; None for the client's own.

        Returns:
            The run.

        Raises:
            InvalidArgumentError: An argument, which is named, does not fit its parameter.
            ResourceExhaustedError: The session has as many launched executions as it may.
        """
        return self.launch(arguments, donate, timeout, lambda result: result)

    @public
    def launch(
        self,
        arguments: Sequence[Argument],
        donate: Sequence[int] | None,
        timeout: float | None,
        form: Callable[[Any], Any],
    ) -> Execution[Any]:
        """Start a run as `submit` does, with a result of another form.

        Args:
            arguments: The arguments, as of `submit`.
            donate: The numbers of donated arguments, as of `submit`.
            timeout: Seconds that the run itself may take; None for the client's own.
            form: A function of the result that `submit` has, which may have no values yet.

        Returns:
            The run, whose result is that of `form`.
        """
        session, result = self._session, self._program_shape.result
        passed, donate = self._run_arguments(arguments, donate)
        if not self._has(CAPABILITY_LAUNCH):
            return self._called(passed, donate, timeout, form)
        step = self.step(passed, donate, timeout)
        runs.keep(step.message, result)
        request = LaunchRequest(run=step.request)
        response = step.calling(lambda: session.call("Launch", request, timeout))
        handles = [each.handle for each in response.outputs[0].outputs]
        limit = session.transport.timeout if timeout is None else timeout
        outputs = form(runs.kept(session, handles, result))
        return LaunchedExecution(session, response.execution.handle, outputs, limit)

    def _called(
        self,
        arguments: Sequence[Argument],
        donate: Sequence[int],
        timeout: float | None,
        form: Callable[[Any], Any],
    ) -> Execution[Any]:
        """Start a run as `launch` does, by a call that another thread awaits."""
        session, result = self._session, self._program_shape.result
        runs.require_numbers(donate, len(arguments))
        buffers = self._on_device(arguments, timeout)
        pending = session.start("Execute", self._request(buffers), timeout)

        def work(calling: CallSequence) -> Any:
            response = calling.result(lambda: pending)
            buffers.clear()  # They must live until now.
            calling.profile = ExecutionProfile.from_proto(response.profile)
            return form(unpacked(Buffer(session, response.output.handle, result), timeout=timeout))

        for number in donate:
            buffers[number].give_up(is_freed=False)
        return BackgroundExecution(work)

    @public
    def delete(self, *, timeout: float | None = None) -> None:
        """Free the program now; a second call does nothing."""
        is_lost = self._generation is not self._session.generation
        if self._finalizer.detach() is not None and not is_lost:
            self._session.delete(self._handle, timeout)

    def _run_arguments(
        self, arguments: Sequence[Argument], donate: Sequence[int] | None
    ) -> tuple[list[Argument], Sequence[int]]:
        """Return the arguments, and the numbers of those to donate, by default the module's."""
        passed = without_executions(arguments)
        return passed, donated_arguments(self._donated, passed) if donate is None else donate

    @property
    def donated_parameters(self) -> frozenset[int]:
        """The parameters that the module donates by itself."""
        return self._donated

    def is_of(self, session: Session) -> bool:
        """Return whether this client compiled it in this session."""
        return self._session is session

    def step(
        self, arguments: Sequence[Argument], donate: Sequence[int], timeout: float | None
    ) -> runs.RunStepMessage:
        """The step of a run of this program, as from `runs.make_step`."""
        return runs.make_step(
            self._session,
            self.handle,
            self._program_shape.parameters,
            arguments,
            donate=donate,
            device=DEFAULT_DEVICE,
            timeout=timeout,
        )

    def _has(self, capability: int) -> bool:
        return capability in self._session.transport.capabilities

    def _is_plain(self, arguments: Sequence[Argument]) -> bool:
        """Return whether one call of Execute can run it and return its result's handle."""
        return not runs.is_flat_tuple(self._program_shape.result) and all(
            isinstance(argument, Buffer) for argument in arguments
        )

    def _plain_request(self, arguments: Sequence[Argument]) -> bytes | None:
        """Return the request of a run whose arrays and result are in messages, None for others."""
        result = self._program_shape.result
        # Read the handle first, as the template contains it.
        if not self.handle or result.byte_size > runs.FETCH_BYTES:
            return None
        template = self._template
        if template is None:

            def encode(arrays: Sequence[Array]) -> bytes:
                step = self.step(arrays, (), None)
                runs.fetch(step.message, result)
                data: bytes = step.request.SerializeToString()
                return data

            parameters = self._program_shape.parameters
            template = self._template = RunTemplate(parameters, encode, runs.INLINE_BYTES)
        return template.request(arguments)

    def _run(self, step: runs.RunStepMessage, timeout: float | None) -> RunResult:
        response = step.calling(lambda: self._session.call("Run", step.request, timeout))
        result: RunResult = response.results[0]
        return result

    def execute_whole(
        self,
        arguments: Sequence[Argument],
        donate: Sequence[int],
        timeout: float | None,
        wait: "Callable[[Callable[[], Pending[Any]]], Any] | None" = None,
    ) -> Buffer:
        """Return the result of a run by Execute as the one buffer it is, tuple or not.

        `wait`, if any, gets a function that starts the call, and returns the call's response.
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
        return on_device(self._session, arguments, parameters, DEFAULT_DEVICE, timeout)

    def _request(self, buffers: list[Buffer]) -> xla_pb2.ExecuteRequest:
        return xla_pb2.ExecuteRequest(
            handle=xla_data_pb2.ExecutionHandle(handle=self.handle),
            arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"an Executable is on its server and cannot be pickled or copied, got {self!r}: "
            "pickle Computation.to_bytes()"
        )

    def __repr__(self) -> str:
        return f"Executable({self._name!r}, {self._program_shape})"

    def _repr_html_(self) -> str:
        shape = self._program_shape
        names = shape.parameter_names or [""] * len(shape.parameters)
        rows: list[tuple[object, ...]] = [
            (f"parameter {number}", name, parameter, human_bytes(parameter.byte_size))
            for number, (name, parameter) in enumerate(zip(names, shape.parameters, strict=True))
        ]
        rows.append(("result", "", shape.result, human_bytes(shape.result.byte_size)))
        return records(f"Executable {self._name}", ("", "name", "shape", "bytes"), rows)
