import logging
from types import SimpleNamespace

import grpc
import pytest

from xla_contract.descriptors import RPCS
from xla_contract.stubs import xla_pb2
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.calls import Calls
from xla_server.rpc.handlers import rpc_handlers
from xla_server.rpc.pools import Pool, Pools, PoolSizes
from xla_server.rpc.servicer import Servicer
from xla_server.sessions.records import Limits
from xla_server.sessions.service import XlaService


@pytest.fixture
def pools():
    pools = Pools(PoolSizes())
    yield pools
    pools.close(1)


@pytest.fixture
def methods():
    service = XlaService(Interpreter(), Limits(max_device_bytes=1000))
    return dict(Servicer(service).methods)


class Context:
    """What a handler asks of grpc's context."""

    status: grpc.Status | None = None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def add_callback(self, callback: object) -> bool:
        return True

    def abort_with_status(self, status: grpc.Status) -> None:
        self.status = status
        raise RuntimeError("aborted")


def _answer(handlers, rpc: str, request: bytes) -> grpc.Status:
    context = Context()
    with pytest.raises(RuntimeError, match="aborted"):
        handlers[rpc].unary_unary(request, context)
    assert context.status is not None
    return context.status


def test_there_is_a_handler_for_every_rpc_and_no_other(pools, methods):
    handlers = rpc_handlers(methods, pools, Calls(), max_message_bytes=1000)
    assert list(handlers) == [rpc.name for rpc in RPCS]
    assert len(handlers) == 18
    del methods["Unpack"]
    methods["Pack"] = (Pool.SHORT, lambda *_: None)
    with pytest.raises(ValueError, match=r"\['Pack', 'Unpack'\]"):
        rpc_handlers(methods, pools, Calls(), max_message_bytes=1000)


def test_calls_that_wait_have_threads_of_their_own(pools, methods):
    handlers = rpc_handlers(methods, pools, Calls(), max_message_bytes=1000)
    threads = {
        name: handler.unary_unary.experimental_thread_pool for name, handler in handlers.items()
    }
    waiting = {"Execute", "ExecuteGraphParallel", "TransferToInfeed", "TransferFromOutfeed"}
    short = set(threads) - waiting
    assert not {threads[name] for name in waiting} & {threads[name] for name in short}
    assert threads["Execute"] not in (threads["TransferToInfeed"], threads["TransferFromOutfeed"])
    assert threads["TransferToInfeed"] is not threads["TransferFromOutfeed"]


def test_a_fault_is_logged_with_its_cause_and_told_without(pools, methods, caplog):
    def fail(request, cancellation):
        raise ZeroDivisionError("the cause")

    methods["GetShape"] = (Pool.SHORT, fail)
    handlers = rpc_handlers(methods, pools, Calls(), max_message_bytes=1000)
    with caplog.at_level(logging.ERROR):
        status = _answer(handlers, "GetShape", b"")
    assert status.code is grpc.StatusCode.INTERNAL
    assert "the cause" not in status.details
    (record,) = caplog.records
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    assert record.args[0] in status.details


def test_an_answer_too_large_is_refused(pools, methods):
    handles = [SimpleNamespace(handle=n, device_count=9) for n in range(900)]
    methods["GetDeviceHandles"] = (
        Pool.SHORT,
        lambda *_: xla_pb2.GetDeviceHandlesResponse(
            device_handles=[{"handle": one.handle, "device_count": 9} for one in handles]
        ),
    )
    handlers = rpc_handlers(methods, pools, Calls(), max_message_bytes=1000)
    status = _answer(handlers, "GetDeviceHandles", b"")
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1000" in status.details
