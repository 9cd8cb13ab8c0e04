"""What DescribeHandles answers, page by page."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from tests.unit.sessions.runs import kept
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.backends.interpreter import Interpreter
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc import extension_session
from xla_server.rpc.extension_session import SessionRpcs
from xla_server.rpc.methods import Row, Unary
from xla_server.sessions.engine import Engine
from xla_server.sessions.records import Limits
from xla_server.sessions.registry import SessionRegistry
from xla_server.sessions.service import XlaService


@pytest.fixture
def sessions() -> Iterator[SessionRegistry]:
    made = SessionRegistry(Engine(Interpreter(), Limits(1 << 20)))
    yield made
    made.close_all()


@pytest.fixture
def service(sessions: SessionRegistry) -> XlaService:
    return sessions.open().service


@pytest.fixture
def rows(sessions: SessionRegistry) -> Mapping[str, Row]:
    return SessionRpcs(sessions, (), 1 << 20).rows


def _describe(
    rows: Mapping[str, Row], service: XlaService, **fields: object
) -> extension_pb2.DescribeHandlesResponse:
    row = rows["DescribeHandles"]
    assert isinstance(row, Unary)
    request = extension_pb2.DescribeHandlesRequest(**fields)  # type: ignore[arg-type]
    response = row.method(service, request, Cancellation())
    assert isinstance(response, extension_pb2.DescribeHandlesResponse)
    return response


def test_a_page_has_no_more_than_asked_for(rows: Mapping[str, Row], service: XlaService) -> None:
    handles = [kept(service, np.float32(number)) for number in range(3)]
    page = _describe(rows, service, limit=2)
    assert ([each.handle for each in page.handles], page.has_more) == (handles[:2], True)
    page = _describe(rows, service, limit=2, after=handles[1])
    assert ([each.handle for each in page.handles], page.has_more) == (handles[2:], False)


def test_a_page_takes_a_bounded_number_of_bytes(
    rows: Mapping[str, Row], service: XlaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = [kept(service, np.float32(number)) for number in range(3)]
    size = _describe(rows, service, limit=1).handles[0].ByteSize()
    monkeypatch.setattr(extension_session, "_DESCRIBED_BYTES", size + 1)
    for fields in ({}, {"handles": handles}):
        page = _describe(rows, service, **fields)
        assert ([each.handle for each in page.handles], page.has_more) == (handles[:2], True)
