"""The caller of a call, from grpc's context of the call."""

import functools
import ipaddress

import grpc

from xla_server.rpc.peers.addresses import tcp_address
from xla_server.rpc.peers.connections import Connections
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.peers.leases import Leases
from xla_server.sessions.limits.shares.caller import LOCAL, Caller

_NETWORK_BITS = 64
"""Bits of the prefix of an IPv6 address that is a host's network: it may choose the others."""


class Callers:
    """The caller of each call of one server. Thread-safe."""

    def __init__(self, connections: Connections | None = None, gate: Gate | None = None) -> None:
        self.connections = Connections() if connections is None else connections
        self.gate = Gate() if gate is None else gate
        self.leases = Leases(self.gate)

    def of(
        self, context: grpc.ServicerContext, path: str, *, with_connection: bool = True
    ) -> Caller:
        """Return the caller of a call in progress, of the rpc at `path`.

        Without `with_connection` its connection is left empty, which saves looking it up for calls
        that name their session. Raises as `Gate.admit`.
        """
        identity = self.gate.admit(context, path)
        peer = context.peer()
        connection = self.connections.of(peer) if with_connection else ""
        if identity.is_authenticated:
            return Caller(identity.name, connection, is_authenticated=True)
        return Caller(host_of(peer), connection)


@functools.lru_cache(4096)
def host_of(peer: str) -> str:
    """Return the host of a client without credentials, by which its use is counted.

    The host is "ipv4:ADDRESS", "ipv6:NETWORK" with its network, or "local" for a unix socket.
    """
    found = tcp_address(peer)
    if found is None:
        return LOCAL.identity
    host = found.rpartition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or LOCAL.identity
    if address.version == 4:
        return f"ipv4:{address}"
    network = ipaddress.ip_network((int(address), _NETWORK_BITS), strict=False)
    return f"ipv6:{network}"
