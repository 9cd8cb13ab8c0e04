"""Identities of callers and their roles."""

import dataclasses
import enum
import math
import re
import urllib.parse

from xla_contract.errors import UnauthenticatedError

MAX_NAME_CHARACTERS = 256
"""Longest name of an identity: names are in every line of the log and keys of every quota."""

_SAFE = "@:/+=,"


class Role(enum.IntEnum):
    """Levels of permission. Each role may do what the ones before it may."""

    NONE = 0
    """No call at all: for identities that are excluded by name."""
    VIEWER = 1
    """Calls that read and change nothing."""
    USER = 2
    """Everything in the caller's own sessions."""
    ADMIN = 3
    """Calls that concern the server or other callers."""

    @classmethod
    def parse(cls, text: str) -> "Role":
        """Return the role of a name in lower case; raises ValueError."""
        for role in cls:
            if role.name.lower() == text:
                return role
        known = ", ".join(role.name.lower() for role in cls)
        raise ValueError(f"a role must be one of {known}, got {text!r:.40}")


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller: a name such as `token:alice`, its role, and until when it holds."""

    name: str
    role: Role
    expires_at: float = math.inf
    """Unix time in seconds."""
    is_authenticated: bool = True
    """False for callers of a server that checks no credentials."""


def identity_name(kind: str, name: str) -> str:
    """Return `kind:name`; all but ASCII letters, digits, _.-~ and _SAFE is percent-encoded.

    Raises UnauthenticatedError for an empty name and one of more than MAX_NAME_CHARACTERS.
    """
    quoted = urllib.parse.quote(name, safe=_SAFE, errors="replace")
    if not name or len(quoted) > MAX_NAME_CHARACTERS:
        raise UnauthenticatedError(
            f"the name of an identity must have 1 to {MAX_NAME_CHARACTERS} characters, got "
            f"{len(quoted)} from a {kind} credential"
        )
    return f"{kind}:{quoted}"


EVERYBODY = "*"
"""The line of a roles file for identities that no other line names."""

_NAME = re.compile(r"\*|[a-z-]+:\S+")


def parse_roles(data: bytes) -> dict[str, Role]:
    """Parse a roles file, by names: lines `IDENTITY ROLE`, and comments from `#` on.

    Raises ValueError that names the line.
    """
    by_name: dict[str, Role] = {}
    for number, line in numbered_lines(data):
        fields = line.split()
        if len(fields) != 2 or not _NAME.fullmatch(fields[0]):
            raise ValueError(
                f"line {number}: must be an identity (kind:name, or *) and a role, got "
                f"{len(fields)} fields"
            )
        if fields[0] in by_name:
            raise ValueError(f"line {number}: {fields[0]} must have one line, got a second")
        try:
            by_name[fields[0]] = Role.parse(fields[1])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return by_name


def numbered_lines(data: bytes) -> list[tuple[int, str]]:
    """Return the numbers and texts of lines that hold more than a comment; raises ValueError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"must be UTF-8, got byte {error.start} that is none") from None
    stripped = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in stripped if line and not line.startswith("#")]
