"""Answers of DescribeHandles, page by page."""

from collections.abc import Mapping

import numpy as np
import pytest
from google.rpc import status_pb2

from tests.fault.plain import until
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    argument_of,
    compiled,
    endless,
    keep,
    kept,
    run_request,
    step,
)
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)
from xla_contract.stubs import xla_extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import program_shape_from_proto, shape_from_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.decode.runs import read_run
from xla_server.rpc.methods import sessions as extension_session
from xla_server.rpc.methods.sessions import SessionRpcs
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionRegistry

ONES = np.ones(4, np.float32)


@pytest.fixture
def service(sessions: SessionRegistry) -> Session:
    return sessions.open().service


@pytest.fixture
def rows(sessions: SessionRegistry) -> Mapping[str, MethodSpec]:
    return SessionRpcs(sessions, (), 1 << 20).methods


def _describe(
    rows: Mapping[str, MethodSpec], service: Session, **fields: object
) -> xla_extension_pb2.DescribeHandlesResponse:
    row = rows["DescribeHandles"]
    assert isinstance(row, Unary)
    request = xla_extension_pb2.DescribeHandlesRequest(**fields)  # type: ignore[arg-type]
    response = row.method(service, request, Cancellation())
    assert isinstance(response, xla_extension_pb2.DescribeHandlesResponse)
    return response


def test_a_page_has_no_more_than_asked_for(
    rows: Mapping[str, MethodSpec], service: Session
) -> None:
    handles = [kept(service, np.float32(number)) for number in range(3)]
    page = _describe(rows, service, limit=2)
    assert ([each.handle for each in page.handles], page.has_more) == (handles[:2], True)
    page = _describe(rows, service, limit=2, after=handles[1])
    assert ([each.handle for each in page.handles], page.has_more) == (handles[2:], False)


def test_a_page_takes_a_bounded_number_of_bytes(
    rows: Mapping[str, MethodSpec], service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = [kept(service, np.float32(number)) for number in range(3)]
    size = _describe(rows, service, limit=1).handles[0].ByteSize()
    monkeypatch.setattr(extension_session, "_DESCRIBED_BYTES", size + 1)
    for fields in ({}, {"handles": handles}):
        page = _describe(rows, service, **fields)
        assert ([each.handle for each in page.handles], page.has_more) == (handles[:2], True)


def test_handles_of_every_kind_are_described(
    rows: Mapping[str, MethodSpec], service: Session
) -> None:
    double, held = compiled(service, DOUBLE), kept(service, ONES)
    run = run_request(step(double, argument_of(held), output=keep()))
    good = service.executions.launch(read_run(run))
    until(lambda: good.is_done)
    loop = compiled(service, endless())
    going = service.executions.launch(
        read_run(run_request(step(loop, argument_of(held), output=keep())))
    )
    response = _describe(rows, service)
    found = {each.handle: each for each in response.handles}
    assert shape_from_proto(found[held].value.shape) == Shape.parse("f32[4]{0}")
    assert not found[held].value.is_pending
    assert found[double].executable.name == DOUBLE
    signature = program_shape_from_proto(found[double].executable.program_shape)
    assert signature.parameters == (Shape.parse("f32[4]{0}"),)
    (coming,) = going.outputs[0]
    assert found[coming].value.is_pending
    described = found[good.handle].execution
    assert (described.name, described.is_done) == (DOUBLE, True)
    assert not found[going.handle].execution.is_done
    (only,) = described.steps
    assert [each.handle for each in only.outputs] == list(good.outputs[0])
    assert [shape_from_proto(each) for each in only.shapes] == [shape_from_proto(only.result)]
    # Of what failed, the error.
    going.cancellation.cancel(CancelledError("enough"))
    until(lambda: going.is_done)
    (failed,) = _describe(rows, service, handles=[coming]).handles
    status = status_pb2.Status.FromString(failed.value.status)
    assert status.code == CancelledError.code
    assert status.message.endswith("enough")
    assert not failed.value.is_pending


def test_a_page_is_asked_for_within_limits(
    rows: Mapping[str, MethodSpec], service: Session
) -> None:
    most = extension_session._MAX_DESCRIBED
    held = kept(service, ONES)
    for fields, rule in (
        ({"handles": [held], "after": 7}, "after must be 0 where handles are .*got 7 with 1 hand"),
        ({"handles": [held] * (most + 1)}, f"at most {most} handles, got {most + 1} handles and"),
        ({"limit": most + 1}, f"at most {most} handles, got 0 handles and the limit {most + 1}$"),
        ({"limit": -1}, "the limit -1$"),
    ):
        with pytest.raises(InvalidArgumentError, match=rule):
            _describe(rows, service, **fields)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="12345"):
        _describe(rows, service, handles=[12345])


def test_a_closed_session_is_gone(
    rows: Mapping[str, MethodSpec], service: Session, sessions: SessionRegistry
) -> None:
    row = rows["CloseSession"]
    assert isinstance(row, Unary)
    row.method(service, xla_extension_pb2.CloseSessionRequest(), Cancellation())
    assert service.is_closed
    with pytest.raises(UnauthenticatedError, match="must be live, got one that has ended"):
        row.method(service, xla_extension_pb2.CloseSessionRequest(), Cancellation())
