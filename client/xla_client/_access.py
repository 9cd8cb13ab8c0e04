"""Credentials of a connection: arguments, else those of a server started here, environment, file.

The file is `~/.config/xla-client/config.toml` (XDG_CONFIG_HOME), or the one of XLA_CLIENT_CONFIG:

    ["host:1685"]
    token_file = "/run/secrets/xla"     # or: token = "..."
    ca_file = "/etc/xla/ca.pem"         # or: fingerprint = "sha256:...", or: tls = true
    cert_file = "/etc/xla/me.pem"       # with key_file

In the environment the same names are in capitals behind XLA_CLIENT_, and count for any target.
"""

import contextlib
import dataclasses
import ipaddress
import os
import stat
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from xla_client._target import normalized
from xla_client.tls import Tls
from xla_contract.errors import InvalidArgumentError

PREFIX = "XLA_CLIENT_"
"""Prefix of the names in the environment."""

_CONFIG = f"{PREFIX}CONFIG"
_TEXTS = ("token", "token_file", "ca_file", "cert_file", "key_file", "fingerprint")
_FLAGS = ("tls", "insecure")
_VARIABLES = (*(name.upper() for name in (*_TEXTS, *_FLAGS)), "CONFIG", "SHARED_MEMORY")
"""Names in the environment, behind the prefix."""
_FOREIGN = frozenset({f"{PREFIX}MEM_FRACTION"})
"""Variables with our prefix that others read: JAX has one."""
_READ_SECONDS = 1.0
"""How long the token of a file is not read again."""

TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str]
"""A bearer token, a file with one that may be renewed, or what gives the one to use now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """How to speak to a server; `tls` stands in for credentials that are made when connecting."""

    tls: Tls | None = None
    token: Callable[[], str] | None = None
    """Gives the bearer token of a call; None where there is none."""


_STARTED: dict[str, str] = {}
"""Tokens of the servers that `Local` runs, by target."""


def remember(target: str, token: str) -> None:
    """Have connections of this process to a server of its own use its token."""
    _STARTED[target] = token


def forget(target: str) -> None:
    """Undo `remember`; harmless when done."""
    _STARTED.pop(target, None)


def resolve(
    target: str,
    *,
    has_credentials: bool,
    tls: Tls | None,
    token: TokenSource | None,
    insecure: bool,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """Complete what `connect` was given by what is configured for the target.

    Args:
        target: As `connect` has it.
        has_credentials: True if the connection has credentials of grpc's.
        tls: The argument, if it is one of ours.
        token: The argument.
        insecure: True if a token may go over plaintext to another machine.
        environment: The variables of the process.

    Raises InvalidArgumentError for a configuration that cannot be read or says too much, and for a
    token that would go to another machine in plaintext.
    """
    _require_known(environment)
    if token is None and target in _STARTED:
        token = _STARTED[target]
    else:
        configured = _configured(target, environment)
        if token is None:
            token = _token_of(configured)
        if tls is None and not has_credentials:
            tls = _tls_of(configured)
        insecure = insecure or configured["insecure"] is True
    is_plain = tls is None and not has_credentials
    if token is not None and is_plain and not insecure and not is_local(target):
        raise InvalidArgumentError(
            f"a token must not go to another machine in plaintext, got {target} without TLS",
            op="connect",
            hint="Give credentials=xla_client.Tls(...), or insecure=True if you trust the network.",
        )
    return Access(tls, None if token is None else _source(token))


def is_local(target: str) -> bool:
    """Return whether a target is on this machine: loopback by its address, or a unix socket."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition("/")[2].rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _FileToken:
    """The token of a file, read again from time to time: whoever issued it may renew it."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = path
        self._token = self._read()
        self._read_at = time.monotonic()

    def __call__(self) -> str:
        now = time.monotonic()
        if now - self._read_at >= _READ_SECONDS:
            self._read_at = now
            # It may be half written; the one there was may still do.
            with contextlib.suppress(InvalidArgumentError):
                self._token = self._read()
        return self._token

    def _read(self) -> str:
        try:
            with open(self._path, encoding="utf-8") as file:
                token = file.read().strip()
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                f"the file of a token must be readable, got {os.fspath(self._path)}: {error}"
            ) from None
        return _checked(token)


def _source(token: TokenSource) -> Callable[[], str]:
    if isinstance(token, str):
        checked = _checked(token)
        return lambda: checked
    return _FileToken(token) if isinstance(token, os.PathLike) else token


def _checked(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError(
            f"a token must be printable ASCII without spaces, got {len(token)} characters that "
            "are not"
        )
    return token


def _require_known(environment: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError for a variable with our prefix that nothing here reads."""
    for variable in environment:
        name = variable.removeprefix(PREFIX)
        if name == variable or name in _VARIABLES or variable in _FOREIGN:
            continue
        raise InvalidArgumentError(
            f"a variable of the environment that begins with {PREFIX} must be one of the client's, "
            f"got {variable}{_nearest(name, _VARIABLES, PREFIX)}",
            op="connect",
        )


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the rest of a sentence that says which known name is meant, or what there is."""
    names = list(known)
    import difflib  # Mistakes alone need it.

    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; there are {', '.join(prefix + each for each in names)}"


def _configured(target: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a target: each name from the environment, else the file."""
    found = _of_file(target, environment)
    for name in (*_TEXTS, *_FLAGS):
        value = environment.get(f"{PREFIX}{name.upper()}")
        if value:
            found[name] = value not in ("0", "false") if name in _FLAGS else value
    return {name: found.get(name) for name in (*_TEXTS, *_FLAGS)}


def _of_file(target: str, environment: Mapping[str, str]) -> dict[str, Any]:
    named = environment.get(_CONFIG)
    base = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(named) if named else Path(base) / "xla-client" / "config.toml"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read().decode()
        targets = tomllib.loads(text)
    except FileNotFoundError:
        if named:
            raise InvalidArgumentError(f"{_CONFIG} must name a file, got {path}") from None
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"a configuration must be TOML, got {path}: {error}") from None
    named_target = target
    for name, table in targets.items():
        if not isinstance(table, dict):
            raise InvalidArgumentError(
                f'{path}{_line(text, name)}: a target must be a table ["{target}"], got the key '
                f"{name} outside of one"
            )
        # A table whose name is no target is ignored.
        with contextlib.suppress(InvalidArgumentError):
            if normalized(name) == target:
                named_target = name
    found: dict[str, Any] = targets.get(named_target, {})
    for name, value in found.items():
        place = f"{path}{_line(text, name, named_target)}"
        if name not in (*_TEXTS, *_FLAGS):
            raise InvalidArgumentError(
                f"{place}: a target must have keys of the client's, got {name}"
                f"{_nearest(name, (*_TEXTS, *_FLAGS))}"
            )
        if type(value) is not (bool if name in _FLAGS else str):
            kind = "true or false" if name in _FLAGS else "a text"
            raise InvalidArgumentError(
                f"{place}: {name} must be {kind}, got one of type {type(value).__name__}"
            )
    if "token" in found and stat.S_IMODE(mode) & 0o077:
        raise InvalidArgumentError(
            f"{path}: a file with a token must be readable by its owner alone, got mode "
            f"{stat.S_IMODE(mode):04o}",
            hint=f"chmod 600 {path}",
        )
    return dict(found)


def _line(text: str, key: str, table: str | None = None) -> str:
    """Return ":" and the number of the line with a key, in a table or before the first one.

    Empty where the key is written in another way than on a line of its own.
    """
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            with contextlib.suppress(ValueError):
                inside = next(iter(tomllib.loads(stripped)), None)
        elif inside == table and stripped.partition("=")[0].strip().strip("'\"") == key:
            return f":{number}"
    return ""


def _token_of(configured: Mapping[str, Any]) -> TokenSource | None:
    if configured["token"]:
        return str(configured["token"])
    return Path(configured["token_file"]) if configured["token_file"] else None


def _tls_of(configured: Mapping[str, Any]) -> Tls | None:
    names = ("ca_file", "cert_file", "key_file", "fingerprint")
    given = {name: configured[name] for name in names if configured[name]}
    return Tls(**given) if given or configured["tls"] else None
