"""Slots that many users share, of which none can take those of all others."""

import threading


class FairShare:
    """A number of slots for users that come and go.

    A user that has slots may have another while it has fewer than are free: the dynamic thresholds
    of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6, 1998). So n users that want all
    slots get 1/(n+1) of them each, and as much is free for the next user. A user that has none gets
    one even if none is free, as long as such slots are no more than `reserve`.

    Methods are called with `lock` held, which also guards the users' own counts.
    """

    __slots__ = ("limit", "lock", "reserve", "used")

    def __init__(self, limit: int, reserve: int = 0) -> None:
        self.limit = limit
        self.reserve = reserve
        self.used = 0
        self.lock = threading.Lock()

    def has_room(self, mine: int) -> bool:
        """Return whether a user that has `mine` slots may have another."""
        if mine:
            return mine < self.limit - self.used
        return self.used < self.limit + self.reserve
