"""The rpcs of executions: Run, RunBatch, Launch, ExecuteSharded ...; and WaitForExecution."""

import contextlib
import functools
import itertools
from collections.abc import Mapping

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.literals.value_proto import fill_value
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred, MethodSpec, Unary
from xla_server.rpc.calls.response_memory import (
    LARGE_BYTES,
    AccountedResponse,
    Response,
    accounted_response,
)
from xla_server.rpc.calls.retry import wait
from xla_server.rpc.decode.runs import named_values, read_run, read_sharded
from xla_server.rpc.encode import data_handles, fill_profile
from xla_server.rpc.errors import status_proto_of
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.limits.response_memory import ResponseReservation
from xla_server.sessions.runs.batch import Batch
from xla_server.sessions.runs.planner import plan_run
from xla_server.sessions.runs.run import PlannedRun, StepOutcome
from xla_server.sessions.session import Session
from xla_server.sessions.values.futures import ValuePendingError
from xla_server.sessions.values.value_table import Reservation


def _run(
    service: Session, request: extension_pb2.RunRequest, cancellation: Cancellation
) -> Response:
    with contextlib.closing(plan_run(service.grids, read_run(request))) as run:
        for value in run.pending:
            value.result()
        # Before a slot is taken: a call that waits for memory must hold no slot.
        with run.reserve(cancellation) as memory:
            service.running.acquire()
            try:
                size = run.sent_back_bytes
                if size < LARGE_BYTES:
                    return _execute(service, run, cancellation, memory)
                return accounted_response(
                    service.response_memory,
                    size,
                    lambda: _execute(service, run, cancellation, memory),
                )
            finally:
                # A client that sees the run ended also sees its memory free.
                run.close()
                memory.release()
                service.running.release()


def run_with_slot(
    service: Session,
    request: extension_pb2.RunRequest,
    cancellation: Cancellation,
    reservation: ResponseReservation | None = None,
) -> extension_pb2.RunResponse:
    """A run in a slot of `service.running` that the caller has taken.

    `reservation` is the memory of its response. Raises ResourceExhaustedError, before anything
    runs, if the response may take no more memory.
    """
    with contextlib.closing(plan_run(service.grids, read_run(request))) as run:
        if run.sent_back_bytes and reservation is not None:
            reservation.grow(run.sent_back_bytes)
        memory = run.reserve(cancellation, service.running)
        return _execute(service, run, cancellation, memory)


def _execute(
    service: Session, run: PlannedRun, cancellation: Cancellation, memory: Reservation
) -> extension_pb2.RunResponse:
    with run.executing(cancellation, memory) as outcomes:
        response = extension_pb2.RunResponse()
        for outcome in outcomes:
            _fill_result(response.results.add(), outcome)
        kept_values = [each for one in outcomes for each in one.kept]
        if not kept_values:
            return response
        # The handles last, so that a failure before them leaves no values behind.
        handles = service.data.keep_all(kept_values)
        remaining_handles = iter(data_handles(handles))
        for result, outcome in zip(response.results, outcomes, strict=True):
            kept = list(itertools.islice(remaining_handles, len(outcome.kept)))
            is_kept = [part.is_kept for part in outcome.parts]
            for part in reversed(list(itertools.compress(result.parts, is_kept))):
                part.data.CopyFrom(kept.pop())
            result.outputs.extend(kept)
        return response


def _fill_result(result: extension_pb2.RunResult, outcome: StepOutcome) -> None:
    fill_profile(result.profile, outcome.profile)
    if outcome.value is not None:
        fill_value(result.value, outcome.value)
    for part in outcome.parts:
        message = result.parts.add()
        if part.value is not None:
            fill_value(message.value, part.value)


def _run_batch(
    service: Session,
    request: extension_pb2.RunBatchRequest,
    cancellation: Cancellation,
    answer: Responder,
) -> None:
    reservation = ResponseReservation(service.response_memory)
    run_one = functools.partial(run_with_slot, service, reservation=reservation)

    def begin() -> None:
        try:
            Batch(
                service.data,
                service.running,
                service.submit,
                request.runs,
                named_values,
                cancellation,
                run_one,
                done,
            ).start()
        except ValuePendingError as error:
            wait(error, lambda: service.submit(begin), cancellation, answer)
        except BaseException as error:
            answer.failed(error)

    def done(outcomes: "list[extension_pb2.RunResponse | XlaError]") -> None:
        forget()
        if cancellation.is_cancelled:
            # Whichever is seen first, the call ends with the cancellation's error.
            reservation.release()
            answer.later(cancelled)
            return
        response = extension_pb2.RunBatchResponse(outcomes=map(_outcome, outcomes))
        if reservation.byte_size >= LARGE_BYTES:
            answer.done(AccountedResponse(response, reservation))
        else:
            reservation.release()
            answer.done(response)

    def cancelled() -> extension_pb2.RunBatchResponse:
        cancellation.check()
        return extension_pb2.RunBatchResponse()

    # Runs that are still in the queue see it only when they get a slot.
    forget = cancellation.add_callback(lambda: answer.later(cancelled))
    begin()


def _outcome(outcome: "extension_pb2.RunResponse | XlaError") -> extension_pb2.RunOutcome:
    if isinstance(outcome, XlaError):
        status = status_proto_of(outcome.at("RunBatch"))
        return extension_pb2.RunOutcome(status=status.SerializeToString())
    return extension_pb2.RunOutcome(response=outcome)


def _launch(
    service: Session, request: extension_pb2.LaunchRequest, _: Cancellation
) -> extension_pb2.LaunchResponse:
    execution = service.executions.launch(read_run(request.run))
    return extension_pb2.LaunchResponse(
        execution=xla_data_pb2.ExecutionHandle(handle=execution.handle),
        outputs=[
            extension_pb2.LaunchedOutputs(outputs=data_handles(handles))
            for handles in execution.outputs
        ],
    )


def _cancel_execution(
    service: Session, request: extension_pb2.CancelExecutionRequest, _: Cancellation
) -> extension_pb2.CancelExecutionResponse:
    was_running = service.executions.cancel(request.execution.handle)
    return extension_pb2.CancelExecutionResponse(was_running=was_running)


def _execute_sharded(
    service: Session, request: extension_pb2.ExecuteShardedRequest, cancellation: Cancellation
) -> extension_pb2.ExecuteShardedResponse:
    executed = service.grids.execute_sharded(read_sharded(request), cancellation)
    response = extension_pb2.ExecuteShardedResponse(
        results=[
            extension_pb2.ShardedResult(outputs=data_handles(outputs))
            for outputs in executed.outputs
        ],
        shape=shape_to_proto(executed.shape),
    )
    fill_profile(response.profile, executed.profile)
    return response


def wait_for_execution(
    service: Session, request: xla_pb2.WaitForExecutionRequest, _: Cancellation
) -> xla_pb2.WaitForExecutionResponse:
    """WaitForExecution of XlaService."""
    output, profile = service.executions.wait(request.execution.handle)
    response = xla_pb2.WaitForExecutionResponse()
    fill_profile(response.profile, profile)
    if output is not None:
        response.output.handle = output
    return response


METHODS: Mapping[str, MethodSpec] = {
    "Run": Unary(Pool.EXECUTE, _run),
    "RunBatch": Deferred(Pool.EXECUTE, _run_batch),
    "Launch": Unary(Pool.SHORT, _launch),
    "ExecuteSharded": Unary(Pool.EXECUTE, _execute_sharded),
    "CancelExecution": Unary(Pool.SHORT, _cancel_execution),
}
"""Methods by the names of the rpcs."""
