"""Responses and the memory reserved for them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from tests.unit.rpc.calls.context import Context
from tests.unit.rpc.fixed_caller import CALLER, always
from tests.unit.sessions.engines import shared_resources
from xla_contract.descriptors import RPCS
from xla_contract.errors import ResourceExhaustedError
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls import response_memory
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.boundary import Boundary, Handler
from xla_server.rpc.calls.deferred import DeferredHandler, Responder
from xla_server.rpc.calls.response_memory import (
    LARGE_BYTES,
    SLOW_BYTES,
    AccountedResponse,
    Response,
    accounted_literal,
    accounted_response,
    discard,
    reservation_of,
)
from xla_server.rpc.calls.response_turns import ResponseTurns
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.threads.request_threads import RequestThreadPool
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.response_memory import ResponseReservation, SessionResponseMemory
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionRegistry

LARGE = bytes(2 * LARGE_BYTES)
LIMIT = 4 * len(LARGE)
RPC = next(rpc for rpc in RPCS if rpc.name == "TransferToClient")


@pytest.fixture
def boundary() -> Boundary:
    quotas = Quotas(1 << 20, answer_bytes=LIMIT)
    engine = shared_resources(quotas=quotas, max_message_bytes=1 << 20)
    return Boundary(SessionRegistry(engine), ActiveCalls(), 1 << 20, always(CALLER))


@pytest.fixture
def service(boundary: Boundary) -> Session:
    return boundary.sessions.enter(None, CALLER).service


@pytest.fixture
def answers(service: Session) -> SessionResponseMemory:
    return service.response_memory


def unary(boundary: Boundary, context: Context, method: Callable[..., Response]) -> bytes:
    with ThreadPoolExecutor(1) as executor:
        return Handler(RPC, method, boundary, executor)(b"", context)  # type: ignore[arg-type]


def deferred(boundary: Boundary, context: Context, method: Callable[..., None]) -> list[Any]:
    """Return the responses that are sent, after waiting for deferred ones."""
    sent: list[Any] = []
    threads = ThreadPool(1, "test")
    handler = DeferredHandler(
        RPC, method, boundary, RequestThreadPool(threads, EndableCalls(), CallAdmission())
    )
    handler(b"", context, sent.append)  # type: ignore[arg-type]
    threads.shutdown()
    return sent


def test_an_answer_has_memory_until_its_call_ends(
    boundary: Boundary, answers: SessionResponseMemory
) -> None:
    def method(service: Session, *_: object) -> Response:
        return accounted_response(service.response_memory, len(LARGE), lambda: LARGE)

    for answered in (lambda *_: LARGE, method):
        context = Context()
        assert unary(boundary, context, answered) == LARGE
        assert answers.used_bytes == len(LARGE)
        context.end()
        assert answers.used_bytes == 0


def test_a_deferred_answer_has_memory_until_its_call_ends(
    boundary: Boundary, answers: SessionResponseMemory
) -> None:
    def method(service: Session, _: object, __: Cancellation, answer: Responder) -> None:
        answer.done(accounted_response(service.response_memory, len(LARGE), lambda: LARGE))

    context = Context()
    assert deferred(boundary, context, method) == [LARGE, None]
    assert answers.used_bytes == len(LARGE)
    context.end()
    assert answers.used_bytes == 0


def test_a_call_that_has_ended_holds_no_memory(
    boundary: Boundary, answers: SessionResponseMemory
) -> None:
    context = Context()

    def method(*_: object) -> Response:
        context.end()
        return LARGE

    assert unary(boundary, context, method) == LARGE
    assert answers.used_bytes == 0


def test_small_answers_are_not_counted(boundary: Boundary, answers: SessionResponseMemory) -> None:
    small = bytes(LARGE_BYTES - 1)
    assert accounted_response(answers, len(small), lambda: small) is small
    context = Context()
    assert unary(boundary, context, lambda *_: small) == small
    # Those that might have been large give back what they had.
    assert (
        unary(boundary, context, lambda *_: accounted_response(answers, len(LARGE), lambda: small))
        == small
    )
    assert answers.used_bytes == 0


def test_nothing_is_made_without_memory(answers: SessionResponseMemory) -> None:
    def make() -> bytes:
        raise AssertionError("made")

    reservation = answers.reserve(LIMIT)
    with pytest.raises(ResourceExhaustedError, match=f"take {LIMIT} bytes"):
        accounted_response(answers, len(LARGE), make)
    literal = Literal.from_numpy(np.zeros(LARGE_BYTES, np.float32))
    with pytest.raises(ResourceExhaustedError, match=f"got {4 * LARGE_BYTES} bytes more"):
        accounted_literal(answers, xla_pb2.TransferToClientResponse(), literal)
    reservation.release()
    with pytest.raises(AssertionError):
        accounted_response(answers, len(LARGE), make)
    assert answers.used_bytes == 0


def test_an_answer_without_memory_is_an_error(
    boundary: Boundary, answers: SessionResponseMemory
) -> None:
    reservation, context = answers.reserve(2 * LIMIT), Context()
    with pytest.raises(RuntimeError, match="aborted"):
        unary(boundary, context, lambda *_: LARGE)
    assert context.status is not None
    assert context.status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert answers.used_bytes == 2 * LIMIT
    sent = deferred(boundary, context, lambda *call: call[-1].done(LARGE))
    assert sent == [None]
    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    reservation.release()
    assert answers.used_bytes == 0


def test_an_answer_that_is_not_sent_releases_its_memory(
    boundary: Boundary, answers: SessionResponseMemory
) -> None:
    def twice(service: Session, _: object, __: Cancellation, answer: Responder) -> None:
        for _ in range(2):
            answer.done(accounted_response(service.response_memory, len(LARGE), lambda: LARGE))

    context = Context()
    assert deferred(boundary, context, twice) == [LARGE, None]
    assert answers.used_bytes == len(LARGE)
    context.end()
    # One that no message can hold is refused.
    huge = bytes(boundary.max_bytes + 1)
    context = Context()
    with pytest.raises(RuntimeError, match="aborted"):
        unary(boundary, context, lambda *_: accounted_response(answers, len(huge), lambda: huge))
    assert answers.used_bytes == 0


@pytest.mark.parametrize("numbers", [[1], [-1], [2**31 - 1]])
def test_integers_have_memory_for_what_they_may_take(
    answers: SessionResponseMemory, numbers: list[int]
) -> None:
    array = np.resize(np.array(numbers, np.int32), 8000)
    literal = Literal.from_numpy(array)
    message = xla_pb2.TransferToClientResponse()
    response = accounted_literal(answers, message, literal)
    assert isinstance(response, AccountedResponse)
    assert answers.used_bytes == 10 * array.size
    data = response.SerializeToString()
    if len(data) >= LARGE_BYTES:
        assert reservation_of(answers, response, len(data)).byte_size == len(data)
        assert answers.used_bytes == len(data)
    discard(response)
    assert answers.used_bytes == 0


def test_an_answer_of_many_parts_takes_what_it_is_found_to_take(
    answers: SessionResponseMemory,
) -> None:
    message: Message = xla_pb2.DeconstructTupleResponse(element_handles=[{}] * len(LARGE))
    response = AccountedResponse(message, answers.reserve(LARGE_BYTES))
    size = len(response.SerializeToString())
    assert reservation_of(answers, response, size).byte_size == size
    discard(response)
    beside, response = (
        answers.reserve(2 * LIMIT),
        AccountedResponse(message, ResponseReservation(answers)),
    )
    with pytest.raises(ResourceExhaustedError):
        reservation_of(answers, response, size)
    assert response.reservation is None
    assert answers.used_bytes == 2 * LIMIT
    beside.release()


def test_large_values_are_encoded_in_turns_and_nothing_else_is(
    answers: SessionResponseMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, flows = ResponseTurns(), list[Flow]()

    def turn(flow: Flow) -> AbstractContextManager[None]:
        flows.append(flow)
        return ResponseTurns.turn(turns, flow)

    monkeypatch.setattr(response_memory.ANSWER_TURNS, "turn", turn)
    message = xla_pb2.TransferToClientResponse()
    # A program that runs makes its answer itself, and may take for ever.
    discard(accounted_response(answers, SLOW_BYTES, lambda: LARGE))
    discard(accounted_literal(answers, message, Literal.from_numpy(np.zeros(LIMIT, np.uint8))))
    assert not flows
    large = Literal.from_numpy(np.zeros(SLOW_BYTES, np.uint8))
    discard(accounted_literal(answers, message, large))
    assert flows == [answers.flow]
