"""Limits of concurrent calls and streams, in total and per caller."""

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import LOCAL, Caller, Flow, flow_of
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares
from xla_server.sessions.limits.shares.fair_share import FairShare


@dataclasses.dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """Limits of concurrent calls or streams: of all clients, and of each."""

    limit: int
    each: int
    reserve: int = 4096
    """Additional slots, for clients that have none, once those of `limit` are taken."""
    shares: CallerShares = EVERYTHING
    """The largest shares of `limit` for one identity and one connection."""


CALL_LIMITS = ConcurrencyLimits(4096, 2048)
STREAM_LIMITS = ConcurrencyLimits(1024, 256)
"""Defaults. A session may wait for all executions that it may launch, and has streams left."""


class ConcurrencyLimit:
    """The concurrent calls or streams, limited for all clients and for each.

    The owner of a call is its session, or without one its connection. `noun` and `hint` are words
    of the refusals. Thread-safe.
    """

    def __init__(self, limits: ConcurrencyLimits, noun: str, hint: str) -> None:
        self._each = limits.each
        self._noun = noun
        self._hint = hint
        self.shares = FairShare(limits.limit, limits.reserve, limits.shares)
        """The slots of all clients together."""
        self._used: dict[str, int] = {}
        self._owners: dict[Hashable, tuple[str, Caller]] = {}

    def enter(self, key: Hashable, owner: str, caller: Caller = LOCAL) -> None:
        """Take a slot for `key` until `leave`; it counts for `owner` and for `caller`.

        Raises ResourceExhaustedError, with the limits and the use, when there is none.
        """
        shares, used = self.shares, self._used
        with shares.lock:
            mine, others = used.get(owner, 0), shares.used
            if mine >= self._each or not shares.has_capacity(mine):
                raise ResourceExhaustedError(
                    f"a session may have {self._each} {self._noun} at the same time, all sessions "
                    f"{shares.limit}, and one of them no more than are left, got one more with "
                    f"{mine} of the session's and {others} of all there",
                    hint=self._hint,
                )
            shares.require(caller, self._noun, self._hint)
            shares.add(caller, 1)
            used[owner] = mine + 1
            self._owners[key] = owner, caller

    def leave(self, key: Hashable) -> None:
        """Release the slot of `key`; no effect without one."""
        # Atomic, so that only one of several reports of an end proceeds.
        found = self._owners.pop(key, None)
        if found is None:
            return
        owner, caller = found
        used, shares = self._used, self.shares
        with shares.lock:
            shares.add(caller, -1)
            left = used[owner] - 1
            if left:
                used[owner] = left
            else:
                del used[owner]

    def flow_of(self, key: Hashable) -> Flow:
        """Return the source of the job that has the slot of `key`: its caller and its owner."""
        owner, caller = self._owners.get(key, ("", LOCAL))
        return flow_of(caller, owner)

    @contextlib.contextmanager
    def acquired(self, owner: str, caller: Caller = LOCAL) -> Iterator[None]:
        """Hold a slot for the block; raises as `enter`."""
        key = object()
        self.enter(key, owner, caller)
        try:
            yield
        finally:
            self.leave(key)
