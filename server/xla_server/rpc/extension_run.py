"""The rpcs of executions: Run, RunBatch, Launch, CancelExecution; and WaitForExecution."""

import contextlib
import functools
import itertools
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.literals.value_proto import fill_value
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.deferred import Answer
from xla_server.rpc.errors import status_proto_of
from xla_server.rpc.held_answers import LARGE_BYTES, HeldAnswer, Response, held
from xla_server.rpc.messages import data_handles, fill_profile, profile_to_proto
from xla_server.rpc.methods import Deferred, Row, Unary
from xla_server.rpc.pools import Pool
from xla_server.rpc.waiting import wait
from xla_server.sessions.answer_memory import AnswerRoom
from xla_server.sessions.batch import Batch
from xla_server.sessions.data import Reservation
from xla_server.sessions.executions import executions_of
from xla_server.sessions.pending import NotYetError
from xla_server.sessions.service import XlaService
from xla_server.sessions.steps import Outcome, PreparedRun, prepare_run


def _run(
    service: XlaService, request: extension_pb2.RunRequest, cancellation: Cancellation
) -> Response:
    with contextlib.closing(prepare_run(service, request)) as run:
        for value in run.pending:
            value.result()
        # Before a slot is taken: who waits for memory holds none.
        with run.reserve(cancellation) as memory:
            service.running.take()
            try:
                size = run.sent_back_bytes
                if size < LARGE_BYTES:
                    return _execute(service, run, cancellation, memory)
                return held(
                    service.answers, size, lambda: _execute(service, run, cancellation, memory)
                )
            finally:
                # A client that sees the run ended also sees its memory free.
                run.close()
                memory.release()
                service.running.give_back()


def run_in_place(
    service: XlaService,
    request: extension_pb2.RunRequest,
    cancellation: Cancellation,
    room: AnswerRoom | None = None,
) -> extension_pb2.RunResponse:
    """A run in a place of `service.running` that the caller has taken; `room` is its answer's.

    Raises ResourceExhaustedError, before anything runs, when the answer can have no more.
    """
    with contextlib.closing(prepare_run(service, request)) as run:
        if run.sent_back_bytes and room is not None:
            room.grow(run.sent_back_bytes)
        memory = run.reserve(cancellation, service.running)
        return _execute(service, run, cancellation, memory)


def _execute(
    service: XlaService, run: PreparedRun, cancellation: Cancellation, memory: Reservation
) -> extension_pb2.RunResponse:
    with run.executing(cancellation, memory) as outcomes:
        response = extension_pb2.RunResponse()
        for outcome in outcomes:
            _fill_result(response.results.add(), outcome)
        kept_values = [each for one in outcomes for each in one.kept]
        if not kept_values:
            return response
        # The handles last: what fails before them leaves nothing behind.
        handles = service.data.keep_all(kept_values)
        following = iter(data_handles(handles))
        for result, outcome in zip(response.results, outcomes, strict=True):
            kept = list(itertools.islice(following, len(outcome.kept)))
            is_kept = [part.is_kept for part in outcome.parts]
            for part in reversed(list(itertools.compress(result.parts, is_kept))):
                part.data.CopyFrom(kept.pop())
            result.outputs.extend(kept)
        return response


def _fill_result(result: extension_pb2.RunResult, outcome: Outcome) -> None:
    fill_profile(result.profile, outcome.profile)
    if outcome.value is not None:
        fill_value(result.value, outcome.value)
    for part in outcome.parts:
        message = result.parts.add()
        if part.value is not None:
            fill_value(message.value, part.value)


def _run_batch(
    service: XlaService,
    request: extension_pb2.RunBatchRequest,
    cancellation: Cancellation,
    answer: Answer,
) -> None:
    room = AnswerRoom(service.answers)
    run_one = functools.partial(run_in_place, room=room)

    def begin() -> None:
        try:
            Batch(service, request.runs, cancellation, run_one, done).start()
        except NotYetError as error:
            wait(error, begin_later, cancellation, answer)
        except BaseException as error:
            answer.failed(error)

    def begin_later() -> None:
        # The threads are gone only when the server is; then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            service.engine.execution_threads.submit_for(service.flow, begin)

    def done(outcomes: "list[extension_pb2.RunResponse | XlaError]") -> None:
        forget()
        if cancellation.is_cancelled:
            # Whichever is seen first, the call ends as it was told to.
            room.release()
            answer.later(cancelled)
            return
        response = extension_pb2.RunBatchResponse(outcomes=map(_outcome, outcomes))
        if room.byte_size >= LARGE_BYTES:
            answer.done(HeldAnswer(response, room))
        else:
            room.release()
            answer.done(response)

    def cancelled() -> extension_pb2.RunBatchResponse:
        cancellation.check()
        return extension_pb2.RunBatchResponse()

    # Runs that are still in line see it only when they get a place.
    forget = cancellation.add_callback(lambda: answer.later(cancelled))
    begin()


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
