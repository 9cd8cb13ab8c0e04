"""Rpcs of XlaService whose answer may be given up on its way."""

from typing import Any

import numpy as np
import pytest

from tests.unit.rpc.methods.deferred_call import DeferredCall
from xla_contract.descriptors import RPCS
from xla_contract.errors import CancelledError, InvalidArgumentError
from xla_contract.stubs import xla_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import decode_literal_message
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.feed_protocol import FeedUse
from xla_server.rpc.calls.method_table import Deferred
from xla_server.rpc.methods.xla_service import METHODS
from xla_server.sessions.session import Session

VECTOR = Shape.parse("f32[4]{0}")
ONES = np.ones(4, np.float32)


def taking(service: Session) -> DeferredCall:
    request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=shape_to_proto(VECTOR))
    return DeferredCall(METHODS["TransferFromOutfeed"], service, request)


def fed(service: Session) -> None:
    feeds = service.devices.feeds(service.devices.resolve(None))
    feeds.bound_to("a program").put_outfeed(ONES, VECTOR, Cancellation(), FeedUse("outfeed"))


def value_of(answer: bytes) -> Any:
    message = decode_literal_message(xla_pb2.TransferFromOutfeedResponse, answer)
    assert message.literal is not None
    return message.literal.read().to_numpy()


def test_every_rpc_of_the_contract_has_a_row() -> None:
    assert set(METHODS) == {rpc.name for rpc in RPCS}


def test_a_value_is_taken_when_its_answer_is_made(service: Session) -> None:
    fed(service)
    np.testing.assert_array_equal(value_of(taking(service).outcome()), ONES)
    assert service.use().queued_items == 0


def test_a_value_whose_client_has_gone_stays_for_the_next(service: Session) -> None:
    fed(service)
    call = taking(service)
    call.cancellation.cancel(CancelledError("the client has gone"))
    assert isinstance(call.outcome(), CancelledError)
    assert service.use().queued_items == 1
    np.testing.assert_array_equal(value_of(taking(service).outcome()), ONES)


def test_requests_without_what_they_need_are_refused(service: Session) -> None:
    for name, request, rule in (
        (
            "TransferFromOutfeed",
            xla_pb2.TransferFromOutfeedRequest(),
            "must hold shape_with_layout, got none",
        ),
        (
            "TransferToInfeed",
            decode_literal_message(xla_pb2.TransferToInfeedRequest, b""),
            "must hold a literal, got none",
        ),
    ):
        row = METHODS[name]
        assert isinstance(row, Deferred)
        answers: Any = None
        with pytest.raises(InvalidArgumentError, match=rule):
            row.method(service, request, Cancellation(), answers)
