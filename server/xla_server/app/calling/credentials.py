"""Credentials of a command that calls a server: flags, else the environment, else a file.

Names, environment and file are those of the Python client (docs/SECURITY.md).
"""

import dataclasses
import ipaddress
import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIX = "XLA_CLIENT_"
"""Prefix of the variables; the rest is the name in capitals."""

_TEXTS = ("token", "token_file", "ca_file", "cert_file", "key_file", "fingerprint")
_FLAGS = ("tls", "insecure")


class CredentialsOptionError(Exception):
    """Credentials cannot be used; the message is one line."""


DEFAULT_PORT = 1685
"""The port of a target that names none: that which servers listen on by default."""


def checked_target(target: str) -> str:
    """Return a target as grpc takes it, with the default port where it names none.

    Raises CredentialsOptionError for an URL and an empty target.
    """
    if not target or target.startswith(("http://", "https://")):
        raise CredentialsOptionError(
            f"a target must be HOST:PORT or unix:PATH, got {target!r:.200}"
        )
    if target.startswith(("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:")):
        return target
    is_bare = ":" not in target or target.endswith("]")
    return f"{target}:{DEFAULT_PORT}" if is_bare else target


@dataclasses.dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of one connection; it speaks TLS if any option of TLS is given."""

    token: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    fingerprint: str = ""
    tls: bool = False
    insecure: bool = False

    @property
    def speaks_tls(self) -> bool:
        """True if the connection is encrypted."""
        return self.tls or any((self.ca_file, self.cert_file, self.fingerprint))


def credentials_for(
    target: str, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ClientCredentials:
    """Return the credentials for a target.

    Args:
        target: HOST:PORT or unix:PATH, as the file names it, too.
        flags: Values by name; those that are None or False come from elsewhere.
        environment: The variables of the process.

    Raises CredentialsOptionError for what cannot be read, and for a token that would go to another
    machine in plaintext.
    """
    values = _of_file(target, environment)
    # A token of a nearer source stands before the file of a token of a farther one.
    sources = (_of_environment(environment), {k: v for k, v in flags.items() if v})
    for source in sources:
        if "token" in source or "token_file" in source:
            values.pop("token", None)
            values.pop("token_file", None)
        values.update(source)
    token = values.pop("token", "") or _token_in(values.get("token_file"))
    values.pop("token_file", None)
    found = ClientCredentials(token=token, **{name: values[name] for name in values})
    if bool(found.cert_file) != bool(found.key_file):
        raise CredentialsOptionError("cert-file must come with key-file, got one of them alone")
    if found.token and not (found.speaks_tls or found.insecure or _is_local(target)):
        raise CredentialsOptionError(
            f"a token must not go to another machine in plaintext, got {target} without TLS: give "
            "--ca-file, --fingerprint or --tls, or --insecure"
        )
    return found


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (*_TEXTS, *_FLAGS):
        value = environment.get(f"{PREFIX}{name.upper()}")
        if value:
            found[name] = value not in ("0", "false") if name in _FLAGS else value
    return found


def _of_file(target: str, environment: Mapping[str, str]) -> dict[str, Any]:
    named = environment.get(f"{PREFIX}CONFIG")
    base = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(named) if named else Path(base) / "xla-client" / "config.toml"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found = tomllib.load(file).get(target, {})
    except FileNotFoundError:
        if named:
            raise CredentialsOptionError(f"{PREFIX}CONFIG must name a file, got {path}") from None
        return {}
    except (OSError, ValueError) as error:
        raise CredentialsOptionError(f"{path}: {error}") from None
    known = dict.fromkeys(_TEXTS, str) | dict.fromkeys(_FLAGS, bool)
    if not isinstance(found, dict) or any(
        type(value) is not known.get(name) for name, value in found.items()
    ):
        raise CredentialsOptionError(
            f'{path}: ["{target}"] must have texts and flags of {", ".join(known)}'
        )
    if "token" in found and mode & 0o077:
        raise CredentialsOptionError(
            f"{path}: a file with a token must be readable by its owner alone, got mode {mode:04o}"
        )
    return dict(found)


def _token_in(path: str | None) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise CredentialsOptionError(f"{path}: a token cannot be read: {error}") from None


def _is_local(target: str) -> bool:
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition("/")[2].rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
