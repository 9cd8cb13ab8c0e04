"""Credentials of a command that calls a server: flags, else the environment, else a file.

Names, environment and file are those of the Python client (docs/SECURITY.md).
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xla_contract.client_settings import PREFIX, configured_for, overridden, require_known
from xla_contract.errors import InvalidArgumentError
from xla_contract.targets import is_local, normalized
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.flags import flag, switch

_FILE_HELP = {
    "token_file": f"file with a bearer token, else {PREFIX}TOKEN",
    "ca_file": "PEM certificates to trust",
    "cert_file": "PEM certificate of this client",
    "key_file": "PEM key of cert-file",
    "fingerprint": "sha256:HEX of the server's certificate, as its log has it",
}
_SWITCH_HELP = {
    "tls": "speak TLS with the system's authorities",
    "insecure": "send a token to another machine without TLS",
}
CREDENTIAL_FLAGS = (
    *(flag(name, str, f"{text}; or {PREFIX}{name.upper()}") for name, text in _FILE_HELP.items()),
    *(switch(name, f"{text}; or {PREFIX}{name.upper()}=1") for name, text in _SWITCH_HELP.items()),
)
"""Flags of commands that call a server."""


def checked_target(target: str) -> str:
    """Return a target in grpc's form, with the default port if it names none.

    Raises ConfigurationError for a text that is no target.
    """
    try:
        return normalized(target)
    except InvalidArgumentError as error:
        raise ConfigurationError(error.message) from None


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
    """Return the credentials for a target, HOST:PORT or unix:PATH, by which the file names them.

    Flags that are None or False are looked up in the environment, then in the file. Raises
    ConfigurationError for files that cannot be read, and for a token that would go to another
    machine in plaintext.
    """
    try:
        require_known(environment)
        configured = configured_for(target, environment)
    except InvalidArgumentError as error:
        raise ConfigurationError(error.message) from None
    given = {name: value for name, value in flags.items() if value}
    values = {name: value for name, value in overridden(configured, given).items() if value}
    path = values.pop("token_file", None)
    token = values.pop("token", "") or _token_in(path)
    found = ClientCredentials(token=token, **values)
    if bool(found.cert_file) != bool(found.key_file):
        raise ConfigurationError("cert-file must come with key-file, got one of them alone")
    if found.token and not (found.speaks_tls or found.insecure or is_local(target)):
        raise ConfigurationError(
            f"a token must not go to another machine in plaintext, got {target} without TLS: give "
            "--ca-file, --fingerprint or --tls, or --insecure"
        )
    return found


def _token_in(path: str | None) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: a token cannot be read: {error}") from None
