"""Addresses of clients in grpc's notation."""

import urllib.parse


def is_unix(peer: str) -> bool:
    """Return whether a peer comes over a unix socket."""
    return peer.startswith("unix:")


def tcp_address(peer: str) -> str | None:
    """The "host:port" of a peer, in the form of `address`; None if it does not come over TCP."""
    kind, _, name = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    host, _, port = urllib.parse.unquote(name).rpartition(":")
    return address(host, port)


def address(host: str, port: int | str) -> str:
    """An address in the same form for IPv4 and IPv6 sockets."""
    return f"{host.strip('[]').removeprefix('::ffff:').partition('%')[0]}:{port}"
