"""Slots that many users share, of which none can take those of all others."""

from typing import Any

from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import (
    EVERYTHING,
    CallerShares,
    CallerUse,
    Level,
)


class FairShare:
    """A number of slots for users that come and go, and the shares of them that callers may have.

    A user that has slots may have another while it has fewer than are free: the dynamic thresholds
    of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6, 1998). So n users that want all
    slots get 1/(n+1) of them each, and as much is free for the next user. A user that has none gets
    one even if none is free, as long as such slots are no more than `reserve`.

    Methods are called with `lock` held, which also guards the users' own counts.
    """

    def __init__(
        self, limit: int, reserve: int = 0, caller_shares: CallerShares = EVERYTHING
    ) -> None:
        self.limit = limit
        self.reserve = reserve
        self.used = 0
        self.held_up: dict[Any, None] = {}
        """Users that wait for slots of others, in the order in which they get the next ones."""
        self._callers = CallerUse(caller_shares)
        self.lock = self._callers.lock

    def has_capacity(self, mine: int) -> bool:
        """Return whether a user that has `mine` slots may have another."""
        if mine:
            return mine < self.limit - self.used
        return self.used < self.limit + self.reserve

    def exceeded(self, caller: Caller) -> Level | None:
        """Return the level of a caller that may not have one more; None if it may."""
        return self._callers.exceeded(caller, 1, self.used, self.limit, self.reserve)

    def require(self, caller: Caller, noun: str, hint: str) -> None:
        """Raise ResourceExhaustedError if a caller may not have one more."""
        level = self.exceeded(caller)
        if level is not None:
            raise self._callers.refusal(level, 1, self.used, self.limit, noun, hint)

    def count(self, caller: Caller, amount: int) -> None:
        """Count slots of a caller as taken or, if negative, released."""
        self.used += amount
        self._callers.add(caller, amount)
