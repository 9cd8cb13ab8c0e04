import fcntl
import hashlib
import stat
from pathlib import Path
from typing import Any

import pytest

from xla_server.identity.identity import Role
from xla_server.identity.tokens import (
    append_line,
    digest_of,
    ensure_token,
    new_token,
    parse_tokens,
    token_line,
)
from xla_server.identity.watched_file import MAX_FILE_BYTES, CredentialsError

TOKEN = "abcdefghijklmnop"


def test_a_token_is_plain_or_hashed():
    hashed = hashlib.sha256(b"the other token!").hexdigest()
    tokens = parse_tokens(f"# team\nalice user {TOKEN}\n\nbob viewer sha256:{hashed}\n".encode())
    alice, bob = tokens.find(digest_of(TOKEN)), tokens.find(digest_of("the other token!"))
    assert alice is not None
    assert bob is not None
    assert (alice.name, alice.role) == ("token:alice", Role.USER)
    assert (bob.name, bob.role) == ("token:bob", Role.VIEWER)
    assert tokens.find(digest_of("another")) is None
    # The hash of a token is no token.
    assert tokens.find(digest_of(f"sha256:{hashed}")) is None


def test_a_token_alone_is_the_owners():
    found = parse_tokens(f"{TOKEN}\n".encode()).find(digest_of(TOKEN))
    assert found is not None
    assert (found.name, found.role) == ("token:owner", Role.ADMIN)


def test_the_line_of_a_token_lets_it_in_and_does_not_have_it():
    token = new_token()
    assert len(token) == 43
    line = token_line("alice", Role.VIEWER, token)
    assert token not in line
    found = parse_tokens(line.encode()).find(digest_of(token))
    assert found is not None
    assert (found.name, found.role) == ("token:alice", Role.VIEWER)
    with pytest.raises(ValueError, match="a name must match"):
        token_line("a b", Role.USER, token)


def test_lines_are_appended_to_a_file_that_stays_one_of_tokens(tmp_path: Path):
    path = tmp_path / "tokens"
    append_line(path, f"alice user {TOKEN}1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes() + b"# the last line has no end")
    append_line(path, f"bob viewer {TOKEN}2")
    before = path.read_text()
    assert before.splitlines()[::2] == [f"alice user {TOKEN}1", f"bob viewer {TOKEN}2"]
    with pytest.raises(ValueError, match=r"tokens: line 4: all tokens of a name must have one"):
        append_line(path, f"alice admin {TOKEN}3")
    assert path.read_text() == before
    with pytest.raises(OSError, match="No such file"):
        append_line(tmp_path / "nowhere" / "tokens", f"alice user {TOKEN}")


def test_a_line_must_agree_with_one_that_is_appended_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, lock = tmp_path / "tokens", fcntl.flock

    def lock_later(file: Any, operation: int) -> None:
        path.write_text(f"alice user {TOKEN}1\n")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", lock_later)
    with pytest.raises(ValueError, match="all tokens of a name must have one role"):
        append_line(path, f"alice admin {TOKEN}2")


def test_no_line_is_appended_beyond_the_size_that_a_server_reads(tmp_path: Path):
    path = tmp_path / "tokens"
    path.write_bytes(b"#" * (MAX_FILE_BYTES - 10))
    with pytest.raises(ValueError, match="tokens: must have at most 4194304 bytes, got more"):
        append_line(path, f"alice user {TOKEN}")
    with pytest.raises(ValueError, match="/dev/full: must have at most 4194304 bytes"):
        append_line(Path("/dev/full"), f"alice user {TOKEN}")


def test_a_name_may_have_several_tokens():
    both = parse_tokens(f"alice user {TOKEN}1\nalice user {TOKEN}2\n".encode())
    assert both.find(digest_of(f"{TOKEN}1")) == both.find(digest_of(f"{TOKEN}2"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"alice {TOKEN}", "line 1: must be NAME ROLE TOKEN"),
        (f"\nali:ce user {TOKEN}", "line 2: must be NAME ROLE TOKEN"),
        (f"alice root {TOKEN}", "line 1: a role must be one of"),
        (f"alice user {TOKEN[:-1]}", "line 1: .* at least 16 .* got 15"),
        (TOKEN[:-1], "line 1: .* at least 16 .* got 15"),
        (f"alice user {TOKEN}\u00e9", "line 1: .* characters of ASCII"),
        (f"alice user {TOKEN}\nbob user {TOKEN}", "line 2: a token must have one line"),
        (f"alice user {TOKEN}1\nalice admin {TOKEN}2", "line 2: .* got admin and user for alice"),
    ],
)
def test_lines_that_are_none_and_no_secret_is_reported(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_tokens(text.encode())
    assert TOKEN[:8] not in str(caught.value)


def test_a_token_is_made_once_and_kept_from_others(tmp_path: Path):
    path = tmp_path / "state" / "token"
    assert ensure_token(path)
    token = path.read_text().strip()
    assert parse_tokens(path.read_bytes()).find(digest_of(token)) is not None
    assert not ensure_token(path)
    assert path.read_text().strip() == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="mode 0600, got mode 0644"):
        ensure_token(path)
