"""Several executions in one call, the later ones with results of the earlier.

The recorded steps become one message of Run, or of Launch. A server without these is called step by
step.
"""

from collections.abc import Sequence
from typing import Any

from xla_client.coercion.parameters import brief
from xla_client.pipelines.pipeline_fallback import PipelineFallback
from xla_client.pipelines.pipeline_run import OneRun, Output, PipelineTransport, StepRecord
from xla_client.runs.arguments import Argument, without_executions
from xla_client.runs.executable import Executable
from xla_client.runs.execution import Execution
from xla_client.runs.step_result import StepResult
from xla_client.session.public_methods import public
from xla_client.session.session import Session
from xla_contract.errors import FailedPreconditionError, InvalidArgumentError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

MAX_STEPS = 1024
"""Largest number of steps of a pipeline, as the contract states."""

_NEEDED = {extension_pb2.CAPABILITY_RUN, extension_pb2.CAPABILITY_RUN_PARTS}


class Pipeline:
    """A sequence of executions that one call runs in order, from `Client.pipeline`.

        p = client.pipeline()
        hidden = p.call(encode, images)
        loss, weights = p.call(train, hidden, labels, old_weights)
        p.fetch(loss)
        p.keep(weights)
        loss, weights = p.run()

    It is all or nothing: the first error of a step is raised, naming the step, and nothing is kept.
    `arun` is for coroutines, and `submit` does not wait for the run. A pipeline is recorded by one
    thread and runs once.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._id = object()
        can_run = session.transport.capabilities >= _NEEDED
        self._way: PipelineTransport = OneRun(session) if can_run else PipelineFallback(session)
        self._executables: list[Executable[Any]] = []
        self._outputs: list[Output] = []
        self._is_over = False

    @public
    def call(
        self,
        executable: Executable[Any],
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Add a step: a program with arguments, which may be results of steps before.

        Arguments are captured at this call: small ones are copied into the message, large ones are
        uploaded, through shared memory or in chunks if the server supports them. Errors of the
        upload are raised.

        Args:
            executable: The program.
            arguments: Its arguments as in a call of the Executable, results of steps, or
                Executions.
            donate: The numbers of arguments that are given up, as in a call of the Executable. The
                default is those that the module donates itself, if they are Buffers, or results of
                steps that no later step reads and that are neither kept nor fetched.
            timeout: Seconds for an upload; None for the client's own.

        Returns:
            The result of the step.

        Raises:
            InvalidArgumentError: An argument does not fit, which is named with its step; there are
                too many steps, or the executable belongs to another client.
        """
        self._require_open("take another step")
        given = without_executions(arguments)
        number = len(self._executables)
        label = f"step {number} ({executable.name})"
        try:
            if number >= MAX_STEPS:
                raise InvalidArgumentError(
                    f"a pipeline must have at most {MAX_STEPS} steps, got one more"
                )
            if not executable.is_of(self._session):
                raise InvalidArgumentError(
                    "a pipeline must call executables of its own client, got one of another"
                )
            self._way.add(StepRecord(self._id, label, executable, given, donate, timeout))
        except XlaError as error:
            raise error.at(label) from error.__cause__
        # It must live until the run.
        self._executables.append(executable)
        return StepResult(self._id, number, executable.program_shape.result)

    @brief
    def keep(self, result: StepResult) -> None:
        """Keep a result on the device: `run` gives a Buffer, for a flat tuple one per element."""
        self._add_output(result, is_fetched=False)

    @brief
    def fetch(self, result: StepResult) -> None:
        """Send a result back: `run` gives its arrays.

        A result of more than a MiB takes another call.
        """
        self._add_output(result, is_fetched=True)

    @brief
    def run(self, *, timeout: float | None = None) -> tuple[Any, ...]:
        """Run the steps; return the results to keep and fetch, in the order of their requests."""
        self._begin()
        if not self._executables:
            return ()
        return self._way.run(self._outputs, timeout)

    @brief
    async def arun(self, *, timeout: float | None = None) -> tuple[Any, ...]:
        """Coroutine of `run`; cancelling it stops the run."""
        self._begin()
        if not self._executables:
            return ()
        return await self._way.arun(self._outputs, timeout)

    @brief
    def submit(self, *, timeout: float | None = None) -> Execution[Any]:
        """Start to run the steps and return at once.

        Args:
            timeout: Seconds that the run itself may take.

        Returns:
            The run, whose result is what `run` gives. So are its `buffers`, which may be arguments
            of other runs before they have values.

        Raises:
            InvalidArgumentError: A result is fetched, or there is no step.
        """
        self._require_open("be submitted")
        fetched = sum(output.is_fetched for output in self._outputs)
        if fetched:
            raise InvalidArgumentError(
                f"a pipeline must keep all results to be submitted, got one that fetches {fetched}",
                hint="Keep them, and call `to_numpy` of their Buffers.",
            )
        if not self._executables:
            raise InvalidArgumentError("a pipeline must have a step to be submitted, got none")
        self._is_over = True
        return self._way.submit(self._outputs, timeout)

    def __len__(self) -> int:
        return len(self._executables)

    def __repr__(self) -> str:
        names = ", ".join(executable.name for executable in self._executables)
        return f"Pipeline({names})"

    def _add_output(self, result: StepResult, *, is_fetched: bool) -> None:
        self._require_open("keep or fetch more")
        result.require_of(self._id)
        self._outputs.append(Output(result, is_fetched))

    def _begin(self) -> None:
        self._require_open("run")
        self._is_over = True

    def _require_open(self, what: str) -> None:
        if self._is_over:
            raise FailedPreconditionError(
                f"only a pipeline that has not run can {what}, got one that has"
            )
