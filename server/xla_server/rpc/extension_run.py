"""The rpcs of executions: Run, RunBatch, Launch, CancelExecution; and WaitForExecution."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.value_proto import value_to_proto
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.deferred import Answer
from xla_server.rpc.errors import status_proto_of
from xla_server.rpc.messages import data_handles, profile_to_proto
from xla_server.rpc.methods import Deferred, Row, Unary
from xla_server.rpc.pools import Pool
from xla_server.sessions.batch import Batch
from xla_server.sessions.executions import executions_of
from xla_server.sessions.service import XlaService
from xla_server.sessions.steps import Outcome, PreparedRun, preparing_run


def _run(
    service: XlaService, request: extension_pb2.RunRequest, cancellation: Cancellation
) -> extension_pb2.RunResponse:
    with preparing_run(service, request) as run:
        for value in run.pending:
            value.result()
        with service.running.taken():
            return _execute(service, run, cancellation)


def run_in_place(
    service: XlaService, request: extension_pb2.RunRequest, cancellation: Cancellation
) -> extension_pb2.RunResponse:
    """A run in a place of `service.running` that the caller has taken."""
    with preparing_run(service, request) as run:
        return _execute(service, run, cancellation)


def _execute(
    service: XlaService, run: PreparedRun, cancellation: Cancellation
) -> extension_pb2.RunResponse:
    with run.executing(cancellation) as outcomes:
        # The handles last: what fails before them leaves nothing behind.
        response = extension_pb2.RunResponse(results=map(_result, outcomes))
        handles = service.data.keep_all([each for one in outcomes for each in one.kept])
        following = iter(data_handles(handles))
        for result, outcome in zip(response.results, outcomes, strict=True):
            result.outputs.extend([next(following) for _ in outcome.kept])
        return response


def _result(outcome: Outcome) -> extension_pb2.RunResult:
    result = extension_pb2.RunResult(profile=profile_to_proto(outcome.profile))
    if outcome.value is not None:
        result.value.CopyFrom(value_to_proto(outcome.value))
    return result


def _run_batch(
    service: XlaService,
    request: extension_pb2.RunBatchRequest,
    cancellation: Cancellation,
    answer: Answer,
) -> None:
    def done(outcomes: "list[extension_pb2.RunResponse | XlaError]") -> None:
        forget()
        answer.done(extension_pb2.RunBatchResponse(outcomes=map(_outcome, outcomes)))

    def cancelled() -> extension_pb2.RunBatchResponse:
        cancellation.check()
        return extension_pb2.RunBatchResponse()

    # Runs that are still in line see it only when they get a place.
    forget = cancellation.add_callback(lambda: answer.later(cancelled))
    Batch(service, request.runs, cancellation, run_in_place, done).start()


def _outcome(outcome: "extension_pb2.RunResponse | XlaError") -> extension_pb2.RunOutcome:
    if isinstance(outcome, XlaError):
        told = outcome if outcome.op else outcome.at("RunBatch")
        status = status_proto_of(told, incident=outcome.incident)
        return extension_pb2.RunOutcome(status=status.SerializeToString())
    return extension_pb2.RunOutcome(response=outcome)


def _launch(
    service: XlaService, request: extension_pb2.LaunchRequest, _: Cancellation
) -> extension_pb2.LaunchResponse:
    execution = executions_of(service).launch(request.run)
    return extension_pb2.LaunchResponse(
        execution=xla_data_pb2.ExecutionHandle(handle=execution.handle),
        outputs=[
            extension_pb2.LaunchedOutputs(outputs=data_handles(handles))
            for handles in execution.outputs
        ],
    )


def _cancel_execution(
    service: XlaService, request: extension_pb2.CancelExecutionRequest, _: Cancellation
) -> extension_pb2.CancelExecutionResponse:
    was_running = executions_of(service).cancel(request.execution.handle)
    return extension_pb2.CancelExecutionResponse(was_running=was_running)


def wait_for_execution(
    service: XlaService, request: xla_pb2.WaitForExecutionRequest, _: Cancellation
) -> xla_pb2.WaitForExecutionResponse:
    """WaitForExecution of XlaService."""
    waited = executions_of(service).wait(request.execution.handle)
    response = xla_pb2.WaitForExecutionResponse(profile=profile_to_proto(waited.profile))
    if waited.output is not None:
        response.output.handle = waited.output
    return response


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "Run": Unary(Pool.EXECUTE, _run),
        "RunBatch": Deferred(Pool.EXECUTE, _run_batch),
        "Launch": Unary(Pool.SHORT, _launch),
        "CancelExecution": Unary(Pool.SHORT, _cancel_execution),
    }
)
"""By the names of the rpcs."""
