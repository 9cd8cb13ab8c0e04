"""Resources of sessions on the interpreter, with the limits that a test is about, and a pool."""

from typing import Any

from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.shared_resources import SharedResources


def shared_resources(
    device_bytes: int = 1 << 20, quotas: Quotas | None = None, devices: int = 1, **limits: Any
) -> SharedResources:
    """Return resources of so many devices; `limits` are fields of `Limits`."""
    return SharedResources(
        Interpreter(devices), Limits(device_bytes, **limits), ThreadPool(64, "execution"), quotas
    )


class Pool:
    """Counts the slots that its threads lend."""

    def __init__(self, *, can_lend: bool = True) -> None:
        self.lent = self.most = 0
        self._can_lend = can_lend

    def lend(self) -> bool:
        self.lent += self._can_lend
        self.most = max(self.most, self.lent)
        return self._can_lend

    def reclaim(self) -> None:
        self.lent -= 1
