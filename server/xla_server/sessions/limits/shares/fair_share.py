"""Slots that many users share, of which none can take those of all others."""

from typing import Any

from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import (
    EVERYTHING,
    CallerShares,
    Level,
    SharedLimit,
)


class FairShare(SharedLimit):
    """A number of slots for users that come and go, and the shares of them that callers may have.

    A user that has slots may have another while it has fewer than are free: the dynamic thresholds
    of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6, 1998). So n users that want all
    slots get 1/(n+1) of them each, and as much is free for the next user. A user that has none gets
    one even if none is free, as long as such slots are no more than `reserve`. A connection that
    has none gets one beyond the share of its identity, so that connections of one host cannot shut
    out its others.

    Its lock also guards the users' own counts.
    """

    def __init__(
        self, limit: int, reserve: int = 0, caller_shares: CallerShares = EVERYTHING
    ) -> None:
        super().__init__(limit, caller_shares)
        self.reserve = reserve
        self.held_up: dict[Any, None] = {}
        """Users that wait for slots of others, in the order in which they get the next ones."""

    def has_capacity(self, mine: int) -> bool:
        """Return whether a user that has `mine` slots may have another."""
        if mine:
            return mine < self.limit - self.used
        return self.used < self.limit + self.reserve

    def refusing(self, caller: Caller) -> Level | None:
        """Return the level of a caller that may not have one more; None if it may."""
        is_new = caller.connection and not self.used_by(("connection", caller.connection))
        return self.exceeded(caller, 1, self.reserve if is_new else 0)

    def require(self, caller: Caller, noun: str, hint: str) -> None:
        """Raise ResourceExhaustedError if a caller may not have one more."""
        level = self.refusing(caller)
        if level is not None:
            raise self.refusal(level, 1, noun, hint)
