import logging
from types import SimpleNamespace
from typing import Any

import pytest
from google.rpc import status_pb2

from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.limits.concurrency_limit import ConcurrencyLimits
from xla_server.sessions.limits.shares.caller import Caller, Flow, flow_of

TOKEN = "t" * 43
OWNER = Caller("ada", "7")


def _event(peer: str, *metadata: tuple[str, Any]) -> Any:
    """Return grpc's event of a call."""
    return SimpleNamespace(
        invocation_metadata=metadata,
        call=SimpleNamespace(peer=peer.encode),
        call_details=SimpleNamespace(method=b"/xla.XlaService/Execute"),
    )


def _places(each: int = 2) -> CallAdmission:
    return CallAdmission(ConcurrencyLimits(16, each), {TOKEN: OWNER}.get)


def test_a_call_is_of_its_live_session_or_else_of_its_connection() -> None:
    places = _places(each=10)
    for number, event in enumerate(
        (
            _event("ipv4:1"),
            _event("ipv4:1", ("xla-session", "u" * 43)),
            _event("ipv4:1", ("user-agent", TOKEN), ("xla-session", b"\xff")),
            _event("ipv4:1", ("user-agent", "a"), ("xla-session", TOKEN)),
            _event("ipv4:2", ("xla-session", TOKEN)),
            _event("unix:"),
        )
    ):
        assert places.admit(number, event) is None
    counts = {owner: places._used.get(owner, 0) for owner in ("ipv4:1", TOKEN, "unix:", "ipv4:2")}
    assert counts == {"ipv4:1": 3, TOKEN: 2, "unix:": 1, "ipv4:2": 0}
    flows = [places.flow_of(number) for number in (0, 3, 4, 5)]
    ours = flow_of(OWNER, TOKEN)
    assert flows == [
        Flow("local", "ipv4:1", "ipv4:1"),
        ours,
        ours,
        Flow("local", "unix:", "unix:"),
    ]
    for number in range(6):
        places.leave(number)
    assert places.shares.used == 0


def test_who_is_refused_gets_the_reason_and_the_log_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = _places()
    event = _event("ipv4:1")
    for number in range(2):
        assert places.admit(number, event) is None
    reported = (
        "Execute: a session may have 2 calls at the same time, all sessions 16, and one of them "
    )
    with caplog.at_level(logging.INFO):
        for _ in range(50):
            refusal: Any = places.admit("one more", event)
            assert refusal.details.startswith(reported)
            ((key, data),) = refusal.trailing_metadata
            assert key == "grpc-status-details-bin"
            status = status_pb2.Status.FromString(data)
            assert (status.code, status.message) == (8, refusal.details)
            assert b"give some up" in data
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith("refused 1 calls, the last: a session may have 2")
    assert caplog.records[0].peer == "ipv4:1"  # type: ignore[attr-defined]
    places.leave("one more")
    assert places.shares.used == 2
    places.leave(0)
    assert places.admit("one more", event) is None


def test_a_call_of_an_identity_is_its_own_whatever_session_it_names() -> None:
    ada = Caller("token:ada", "7", is_authenticated=True)
    places = CallAdmission(ConcurrencyLimits(16, 8), {TOKEN: ada}.get)
    named, unnamed = _event("ipv4:1", ("xla-session", TOKEN)), _event("ipv4:1")
    for number, (event, identity) in enumerate(
        ((named, "token:ada"), (unnamed, "token:ada"), (named, "token:eve"), (named, ""))
    ):
        assert places.admit(number, event, identity) is None
    assert [places.flow_of(number) for number in range(4)] == [
        Flow("token:ada", "7", TOKEN),
        Flow("token:ada", "ipv4:1", "ipv4:1"),
        Flow("token:eve", "ipv4:1", "ipv4:1"),
        Flow("local", "ipv4:1", "ipv4:1"),
    ]
    assert (places._used.get(TOKEN, 0), places._used.get("ipv4:1", 0)) == (1, 3)
