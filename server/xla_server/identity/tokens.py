"""Static bearer tokens: a file with a line for each, for small teams."""

import dataclasses
import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from xla_server.identity.identity import Identity, Role, identity_name, numbered_lines
from xla_server.identity.watched_file import MAX_FILE_BYTES, require_private, write_once

MIN_TOKEN_CHARACTERS = 16
"""Shortest token of a file. One that `new_token` makes has 43, for 256 random bits."""

OWNER = "owner"
"""Name of the identity of a file with nothing but a token."""

_TOKEN_BYTES = 32
"""Random bytes of a token: 256 bits, which cannot be guessed."""

_NAME = re.compile(r"[A-Za-z0-9._@-]{1,128}")
_TOKEN = re.compile(r"[!-~]+")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a file, by their SHA-256."""

    entries: Sequence[tuple[bytes, Identity]] = ()

    def find(self, digest: bytes) -> Identity | None:
        """Return the identity of a token by its digest.

        All entries are compared, each in constant time, so that the time says nothing about them.
        """
        found = None
        for known, identity in self.entries:
            if hmac.compare_digest(known, digest):
                found = identity
        return found


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def token_line(name: str, role: Role, token: str) -> str:
    """Return the line of a token file for `token`; raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a name must match {_NAME.pattern}, got {name!r:.140}")
    return f"{name} {role.name.lower()} sha256:{digest_of(token).hex()}"


def append_line(path: Path, line: str) -> None:
    """Append a line to a token file, which only this user may read if it is made for it.

    Raises ValueError if the file with the line is no token file, and OSError.
    """
    with open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b") as file:
        # Lines that are appended at the same time must agree, too.
        fcntl.flock(file, fcntl.LOCK_EX)
        known = file.read(MAX_FILE_BYTES)
        added = b"\n" * (known[-1:] not in (b"", b"\n")) + f"{line}\n".encode()
        try:
            if len(known) + len(added) > MAX_FILE_BYTES:
                raise ValueError(f"must have at most {MAX_FILE_BYTES} bytes, got more")
            parse_tokens(known + added)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        file.write(added)


def parse_tokens(data: bytes) -> Tokens:
    """Parse lines `NAME ROLE TOKEN`, the token plain or as sha256:HEX; `#` begins comments.

    A line may also be a token alone: that of the administrator `owner`. One name may have several
    tokens, so that a new one can be handed out before the old one goes. Raises ValueError that
    names the line and never a token.
    """
    entries: dict[bytes, Identity] = {}
    roles: dict[str, Role] = {}
    for number, line in numbered_lines(data):
        fields = line.split()
        if len(fields) == 1:
            fields = [OWNER, "admin", line]
        try:
            if len(fields) != 3 or not _NAME.fullmatch(fields[0]):
                raise ValueError("must be NAME ROLE TOKEN, or a token alone")
            name, role_name, secret = fields
            role = Role.parse(role_name)
            digest = _digest(secret)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if digest in entries:
            raise ValueError(f"line {number}: a token must have one line, got a second")
        if roles.setdefault(name, role) is not role:
            raise ValueError(
                f"line {number}: all tokens of a name must have one role, got "
                f"{role.name.lower()} and {roles[name].name.lower()} for {name}"
            )
        entries[digest] = Identity(identity_name("token", name), role)
    return Tokens(tuple(entries.items()))


def _digest(secret: str) -> bytes:
    hashed = _HASH.fullmatch(secret)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if len(secret) < MIN_TOKEN_CHARACTERS or not _TOKEN.fullmatch(secret):
        raise ValueError(
            f"a token must have at least {MIN_TOKEN_CHARACTERS} printable characters of ASCII, "
            f"got {len(secret)} characters"
        )
    return digest_of(secret)


def ensure_token(path: Path) -> bool:
    """Make a token in a file unless the file exists; return whether it was made.

    Raises CredentialsError when it cannot be written, or when others may read it.
    """
    is_new = write_once(path, f"{new_token()}\n".encode())
    require_private(path)
    return is_new
