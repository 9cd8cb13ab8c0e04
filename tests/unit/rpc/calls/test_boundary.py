import logging
from types import SimpleNamespace

import grpc
import pytest

from tests.unit.rpc.calls.context import Context
from tests.unit.rpc.fixed_caller import CALLER, always
from tests.unit.sessions.engines import shared_resources
from xla_contract.descriptors import RPCS
from xla_contract.stubs import xla_pb2
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.method_table import Deferred, Unary, rpc_handlers
from xla_server.rpc.methods.xla_service import METHODS
from xla_server.rpc.threads.pools import Pool, Pools, PoolSizes
from xla_server.sessions.session_registry import SessionRegistry


@pytest.fixture
def pools():
    pools = Pools(PoolSizes())
    yield pools
    pools.close(1)


@pytest.fixture
def boundary():
    engine = shared_resources(1000)
    return Boundary(SessionRegistry(engine), ActiveCalls(), 1000, always(CALLER))


@pytest.fixture
def rows():
    return dict(METHODS)


def _answer(handlers, rpc: str, request: bytes) -> grpc.Status:
    context = Context()
    with pytest.raises(RuntimeError, match="aborted"):
        handlers[rpc].unary_unary(request, context)
    assert context.status is not None
    return context.status


def test_there_is_a_handler_for_every_rpc_and_no_other(pools, rows, boundary):
    handlers = rpc_handlers(RPCS, rows, pools, boundary)
    assert list(handlers) == [rpc.name for rpc in RPCS]
    assert len(handlers) == 18
    del rows["Unpack"]
    rows["Pack"] = Unary(Pool.SHORT, lambda *_: None)
    with pytest.raises(ValueError, match=r"\['Pack', 'Unpack'\]"):
        rpc_handlers(RPCS, rows, pools, boundary)


def test_calls_that_wait_have_threads_of_their_own_or_none(pools, rows, boundary):
    handlers = rpc_handlers(RPCS, rows, pools, boundary)
    threads = {
        name: handler.unary_unary.experimental_thread_pool
        for name, handler in handlers.items()
        if handler.unary_unary is not None
    }
    waiting = {"Execute", "ExecuteGraphParallel", "ComputeConstantGraph"}
    short = set(threads) - waiting
    assert not {threads[name] for name in waiting} & {threads[name] for name in short}
    assert all(
        isinstance(rows[name], Deferred) for name in ("TransferToInfeed", "TransferFromOutfeed")
    )


def test_a_fault_is_logged_with_its_cause_and_reported_without(pools, rows, boundary, caplog):
    def fail(service, request, cancellation):
        raise ZeroDivisionError("the cause")

    rows["GetShape"] = Unary(Pool.SHORT, fail)
    handlers = rpc_handlers(RPCS, rows, pools, boundary)
    with caplog.at_level(logging.ERROR):
        status = _answer(handlers, "GetShape", b"")
    assert status.code is grpc.StatusCode.INTERNAL
    assert "the cause" not in status.details
    (record,) = caplog.records
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    assert record.args[0] in status.details


def test_an_answer_too_large_is_refused(pools, rows, boundary):
    handles = [SimpleNamespace(handle=n, device_count=9) for n in range(900)]
    rows["GetDeviceHandles"] = Unary(
        Pool.SHORT,
        lambda *_: xla_pb2.GetDeviceHandlesResponse(
            device_handles=[{"handle": one.handle, "device_count": 9} for one in handles]
        ),
    )
    handlers = rpc_handlers(RPCS, rows, pools, boundary)
    status = _answer(handlers, "GetDeviceHandles", b"")
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1000" in status.details
