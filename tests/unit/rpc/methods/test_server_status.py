"""DescribeServer: the server's state as the command `status` shows it."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.clock import Clock
from tests.unit.sessions.engines import shared_resources
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import Unary
from xla_server.rpc.methods.server_status import ServerRpcs
from xla_server.rpc.threads.pools import Pools, PoolSizes
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.session_registry import SessionRegistry


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Iterator[SessionRegistry]:
    made = SessionRegistry(shared_resources(1000, devices=2, max_sessions=7), clock=clock)
    yield made
    made.close_all()


def zeros(count: int) -> UndecodedLiteral:
    return UndecodedLiteral(Literal.from_numpy(np.zeros(count, np.float32)))


def described(
    registry: SessionRegistry, pools: Pools | None = None, **fields: int
) -> extension_pb2.DescribeServerResponse:
    row = ServerRpcs(registry, pools, 5).methods["DescribeServer"]
    assert isinstance(row, Unary)
    # It belongs to no session: none is made for it.
    assert not row.has_session
    request = extension_pb2.DescribeServerRequest(**fields)
    response = row.method(LOCAL, request, Cancellation())
    assert isinstance(response, extension_pb2.DescribeServerResponse)
    return response


def test_limits_and_use_of_all_sessions(sessions: SessionRegistry) -> None:
    session = sessions.open(caller=Caller("token:alice", "connection"))
    session.service.transfer_to_server(zeros(2), None)
    state = described(sessions)
    assert (state.platform, list(state.devices)) == (
        "interpreter",
        ["interpreter:0", "interpreter:1"],
    )
    assert state.server.startswith("xla-service ")
    assert (state.device_bytes.used, state.device_bytes.limit) == (8, 1000)
    assert (state.sessions.used, state.sessions.limit) == (1, 7)
    assert (state.resident_bytes.limit, state.resident_bytes.used > 0) == (5, True)
    assert not state.pools
    [summary] = state.described_sessions
    assert summary.identity == "token:alice"
    assert (summary.use.device_bytes, summary.use.handles, summary.executables) == (8, 1, 0)
    assert session.token not in str(state)


def test_the_largest_sessions_come_first_and_no_more_than_asked_for(
    sessions: SessionRegistry,
) -> None:
    for count in (1, 3, 2):
        session = sessions.open(caller=Caller(f"token:{count}"))
        session.service.transfer_to_server(zeros(count), None)
    assert [each.identity for each in described(sessions).described_sessions] == [
        *("token:3", "token:2", "token:1")
    ]
    [largest] = described(sessions, sessions=1).described_sessions
    assert largest.identity == "token:3"
    with pytest.raises(InvalidArgumentError, match="at most 256 sessions, got 257"):
        described(sessions, sessions=257)


def test_a_session_is_idle_since_its_last_use(sessions: SessionRegistry, clock: Clock) -> None:
    session = sessions.open()
    clock.now += 30
    [away] = described(sessions).described_sessions
    assert (away.is_attached, away.calls, away.idle_seconds) == (False, 0, 30)
    with sessions.attached(session):
        [here] = described(sessions).described_sessions
    assert (here.is_attached, here.idle_seconds) == (True, 0)


def test_calls_and_their_threads_are_those_of_the_pools(sessions: SessionRegistry) -> None:
    pools = Pools(PoolSizes(short=1))
    state = described(sessions, pools)
    assert [pool.name for pool in state.pools] == ["short", "compile", "execute", "stream"]
    assert state.calls.limit == pools.calls.shares.limit > 0
    assert state.streams.limit == pools.streams.shares.limit > 0
    pools.close(1)


def test_fusions_that_failed_to_compile_are_counted(
    sessions: SessionRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = described(sessions).fusion_faults
    with monkeypatch.context() as patch:
        patch.setattr(FUSION_FAULTS, "_count", before + 3)
        assert described(sessions).fusion_faults == before + 3
