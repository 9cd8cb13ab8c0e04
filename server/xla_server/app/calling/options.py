"""The options of commands that call a server, with what they have from elsewhere."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import typer


def _option(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


TokenFile: TypeAlias = Annotated[
    str | None, _option("file with a bearer token; or XLA_CLIENT_TOKEN_FILE, XLA_CLIENT_TOKEN")
]
CaFile: TypeAlias = Annotated[
    str | None, _option("PEM certificates to trust; or XLA_CLIENT_CA_FILE")
]
CertFile: TypeAlias = Annotated[
    str | None, _option("PEM certificate of this client; or XLA_CLIENT_CERT_FILE")
]
KeyFile: TypeAlias = Annotated[str | None, _option("PEM key of cert-file; or XLA_CLIENT_KEY_FILE")]
Fingerprint: TypeAlias = Annotated[
    str | None,
    _option("sha256:HEX of the server's certificate, as its log has it; or XLA_CLIENT_FINGERPRINT"),
]
UseTls: TypeAlias = Annotated[
    bool, typer.Option("--tls", help="speak TLS with the system's authorities; or XLA_CLIENT_TLS=1")
]
Insecure: TypeAlias = Annotated[
    bool, typer.Option("--insecure", help="send a token to another machine without TLS")
]


def credential_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a command's arguments that are these options, by name."""
    names = ("token_file", "ca_file", "cert_file", "key_file", "fingerprint", "tls", "insecure")
    return {name: given[name] for name in names}
