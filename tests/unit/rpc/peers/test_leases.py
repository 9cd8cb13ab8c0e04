import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.unit.rpc.peers.test_gate import TOKEN, with_token
from xla_contract.errors import PermissionDeniedError, UnauthenticatedError, XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.identity.authenticator import Authenticator, Sources
from xla_server.identity.authorise import authorise
from xla_server.identity.tokens import parse_tokens
from xla_server.identity.watched_file import WatchedFile
from xla_server.identity.web_tokens import WebTokenRules, parse_secret
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.peers.leases import Leases

DOWNLOAD, UPLOAD = (f"/xla.XlaExtensionService/{name}" for name in ("Download", "Upload"))
SECRET = "s" * 32


def gate_of(path: Path) -> Gate:
    (path / "tokens").write_text(f"alice user {TOKEN}\n")
    (path / "secret").write_text(SECRET)
    sources = Sources(
        tokens=WatchedFile(path / "tokens", parse_tokens),
        web_keys=WatchedFile(path / "secret", parse_secret),
        web_rules=WebTokenRules(("HS256",)),
    )
    return Gate(Authenticator(sources))


def error_of(cancellation: Cancellation) -> XlaError:
    with pytest.raises(XlaError) as caught:
        cancellation.check()
    return caught.value


def test_a_stream_without_credentials_does_not_begin(tmp_path: Path) -> None:
    leases = Leases(gate_of(tmp_path))
    with (
        pytest.raises(UnauthenticatedError),
        leases.holding(with_token("another-token"), UPLOAD, Cancellation()),
    ):
        pass
    assert not leases._leases


def test_streams_end_when_their_token_is_withdrawn_or_its_role_too_low(tmp_path: Path) -> None:
    leases = Leases(gate_of(tmp_path))
    ends, stays, over = Cancellation(), Cancellation(), Cancellation()
    with leases.holding(with_token(TOKEN), UPLOAD, over):
        pass
    with (
        leases.holding(with_token(TOKEN), UPLOAD, ends),
        leases.holding(with_token(TOKEN), DOWNLOAD, stays) as lease,
    ):
        leases.recheck()
        authorise(lease.identity, UPLOAD)
        (tmp_path / "tokens").write_text(f"alice viewer {TOKEN}\n")
        leases.recheck()
        assert isinstance(error_of(ends), PermissionDeniedError)
        assert not stays.is_cancelled
        # Calls on it have the new role.
        with pytest.raises(PermissionDeniedError):
            authorise(lease.identity, UPLOAD)
        (tmp_path / "tokens").write_text("bob user the-token-of-bob\n")
        leases.recheck()
        assert isinstance(error_of(stays), UnauthenticatedError)
    assert not over.is_cancelled
    assert not leases._leases


def test_the_thread_ends_a_stream_when_its_token_expires(tmp_path: Path) -> None:
    leases = Leases(gate_of(tmp_path))
    leases.start()
    is_told = threading.Event()
    cancellation = Cancellation()
    cancellation.add_callback(is_told.set)
    expires_at = time.time() + 0.5
    token = jwt.encode({"sub": "carol", "exp": expires_at}, SECRET, "HS256")
    with leases.holding(with_token(token), UPLOAD, cancellation):
        assert is_told.wait(60)
        assert time.time() >= expires_at
    assert "must not have expired" in error_of(cancellation).message
    leases.close()
    assert not leases._thread.is_alive()


def test_a_look_that_fails_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = gate_of(tmp_path)
    looks = threading.Semaphore(0)

    def fail() -> bool:
        looks.release()
        raise OSError("too many open files")

    monkeypatch.setattr("xla_server.rpc.peers.leases.ROUND_SECONDS", 0.01)
    monkeypatch.setattr(gate.authenticator, "refresh", fail)
    leases = Leases(gate)
    leases.start()
    for _ in range(2):
        assert looks.acquire(timeout=60)
    leases.close()
    assert "looking at credentials failed" in caplog.text


def test_without_files_and_expiries_nothing_is_looked_at(tmp_path: Path) -> None:
    open_to_all: Any = with_token("whatever")
    leases = Leases(Gate())
    leases.start()
    with leases.holding(open_to_all, UPLOAD, Cancellation()):
        assert leases._pause() is None
    leases.close()
    leases.close()
    assert Leases(gate_of(tmp_path))._pause() == 1
    # One that was never started can be closed, too.
    Leases(Gate()).close()
