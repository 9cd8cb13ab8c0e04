"""One caller for all calls, for handlers under test that no grpc server stands before."""

from typing import Any

from xla_server.rpc.peers.callers import Callers
from xla_server.sessions.limits.shares.caller import Caller

CALLER = Caller("ipv4:127.0.0.1", "1")


class _Fixed(Callers):
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def of(self, context: Any, path: str, *, with_connection: bool = True) -> Caller:
        return self._caller


def always(caller: Caller) -> Callers:
    """Callers that know this one alone."""
    return _Fixed(caller)
