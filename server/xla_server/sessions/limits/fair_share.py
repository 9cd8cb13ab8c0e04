"""Places that many share, of which nobody can take those of all others."""

import threading


class FairShare:
    """So many places for users who come and go.

    A user who has some may have another while it has fewer than are free: the dynamic thresholds
    of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6, 1998), by which n users who want
    all there is have an n+1st part each, and a part is free for who comes next. One who has none
    gets one also when none is free, as long as such places are no more than `reserve`.

    Called with `lock` held, which is there for what users keep of their own, too.
    """

    __slots__ = ("limit", "lock", "reserve", "used")

    def __init__(self, limit: int, reserve: int = 0) -> None:
        self.limit = limit
        self.reserve = reserve
        self.used = 0
        self.lock = threading.Lock()

    def has_room(self, mine: int) -> bool:
        """Whether a user who has `mine` places may have another."""
        if mine:
            return mine < self.limit - self.used
        return self.used < self.limit + self.reserve
