"""Policy of the addresses on which a server may listen, by its credentials."""

import enum
from collections.abc import Sequence

from xla_contract.targets import is_local

_UNIX = "unix:"
_ABSTRACT = "unix-abstract:"


class Reach(enum.IntEnum):
    """The set of users that can connect to an address."""

    OWNER = 0
    """The users that the mode of a socket's file lets in."""
    MACHINE = 1
    """All users of the machine: loopback, and abstract sockets, which have no file."""
    NETWORK = 2
    """All clients with a route."""


def reach_of(address: str) -> Reach:
    """Return who can connect to HOST:PORT or a unix socket.

    Only literal addresses and `localhost` count as loopback: any other name may change its mind.
    """
    if address.startswith(_ABSTRACT):
        return Reach.MACHINE
    if address.startswith(_UNIX):
        return Reach.OWNER
    return Reach.MACHINE if is_local(address) else Reach.NETWORK


def trusts_sockets(addresses: Sequence[str]) -> bool:
    """Return whether callers over unix sockets are those whom the mode of a file lets in.

    grpc reports the same peer for all sockets, and any local user can open an abstract one.
    """
    return not any(each.startswith(_ABSTRACT) for each in addresses)


def needs_token(addresses: Sequence[str], *, has_identity: bool, is_insecure: bool) -> bool:
    """Return whether the server is to make a token: nothing else tells its callers apart.

    It `has_identity` if tokens or client certificates do. The operator may accept what is missing.
    """
    is_open = not has_identity and not is_insecure
    return is_open and any(reach_of(each) > Reach.OWNER for each in addresses)


def plaintext_faults(addresses: Sequence[str], *, has_tls: bool, is_insecure: bool) -> list[str]:
    """Return a sentence for each address that must not be listened on in plaintext."""
    if has_tls or is_insecure:
        return []
    return [
        f"listen: an address beyond loopback must have TLS, got {address} in plaintext: give "
        "--tls-cert-file and --tls-key-file, or --tls-self-signed, or --insecure if all clients "
        "that can reach it are trusted"
        for address in addresses
        if reach_of(address) is Reach.NETWORK
    ]
