"""Credentials of a connection, from arguments, a local server, environment or file, in this order.

`xla_contract.client_settings` reads environment and file.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from xla_client.transport.tls import Tls
from xla_contract.client_settings import configured_for, require_known
from xla_contract.errors import InvalidArgumentError
from xla_contract.targets import is_local

_READ_SECONDS = 1.0
"""Seconds for which the token of a file is cached."""

TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str]
"""A bearer token, a file with one that may be renewed, or a function that returns one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """Credentials for a server; `tls` stands in for credentials that are made when connecting."""

    tls: Tls | None = None
    token: Callable[[], str] | None = None
    """Returns the bearer token of a call; None without tokens."""


_STARTED: dict[str, str] = {}
"""Tokens of the servers that `Local` runs, by target."""


def remember(target: str, token: str) -> None:
    """Let connections of this process to `target` use the token of a server that it started."""
    _STARTED[target] = token


def forget(target: str) -> None:
    """Undo `remember`; no effect when done before."""
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
    """Complete the arguments of `connect` with the configuration for the target.

    Args:
        target: The argument of `connect`.
        has_credentials: True if the connection has credentials of grpc's.
        tls: The argument, if it is one of ours.
        token: The argument.
        insecure: True if a token may go over plaintext to another machine.
        environment: The variables of the process.

    Raises InvalidArgumentError for a configuration that cannot be read or says too much, and for a
    token that would go to another machine in plaintext.
    """
    require_known(environment)
    if token is None and target in _STARTED:
        token = _STARTED[target]
    else:
        configured = configured_for(target, environment)
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


class _FileToken:
    """The token of a file, read again from time to time: its issuer may renew it."""

    def __init__(self, path: os.PathLike[str]) -> None:
        self._path = path
        self._token = self._read()
        self._read_at = time.monotonic()

    def __call__(self) -> str:
        now = time.monotonic()
        if now - self._read_at >= _READ_SECONDS:
            self._read_at = now
            # The file may be half written; the previous token may still be valid.
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


def _token_of(configured: Mapping[str, Any]) -> TokenSource | None:
    if configured["token"]:
        return str(configured["token"])
    return Path(configured["token_file"]) if configured["token_file"] else None


def _tls_of(configured: Mapping[str, Any]) -> Tls | None:
    names = ("ca_file", "cert_file", "key_file", "fingerprint")
    given = {name: configured[name] for name in names if configured[name]}
    return Tls(**given) if given or configured["tls"] else None
