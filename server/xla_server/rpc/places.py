"""How many calls and streams there may be, and whose they are."""

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.shares import Shares


@dataclasses.dataclass(frozen=True, slots=True)
class PlaceLimits:
    """What there may be of a kind at the same time: of all clients, and of each."""

    limit: int
    each: int
    reserve: int = 4096
    """For clients that have none, when those of `limit` are taken."""

    @property
    def most(self) -> int:
        """What there may be in all, the reserve among it."""
        return self.limit + self.reserve


CALL_LIMITS = PlaceLimits(4096, 2048)
STREAM_LIMITS = PlaceLimits(1024, 256)
"""Where nobody says others. A session may wait for all it may have launched, and has some left."""


class Places:
    """The calls or streams there may be at the same time, of all clients and of one.

    Those that name a session are counted by it, others by their connection: that is their owner.
    `noun` and `hint` are for who is refused. Any thread may use it.
    """

    def __init__(self, limits: PlaceLimits, noun: str, hint: str) -> None:
        self._each = limits.each
        self._noun = noun
        self._hint = hint
        self._shares = Shares(limits.limit, limits.reserve)
        self._used: dict[str, int] = {}
        self._owners: dict[Hashable, str] = {}

    @property
    def used(self) -> int:
        """Places that are taken."""
        return self._shares.used

    def used_by(self, owner: str) -> int:
        """Those of one owner."""
        return self._used.get(owner, 0)

    def enter(self, key: Hashable, owner: str) -> None:
        """Take a place for what `key` names until `leave`.

        Raises ResourceExhaustedError, with the limits and the use, when there is none.
        """
        shares, used = self._shares, self._used
        with shares.lock:
            mine, others = used.get(owner, 0), shares.used
            has_room = mine < self._each and shares.has_room(mine)
            if has_room:
                used[owner] = mine + 1
                shares.used = others + 1
                self._owners[key] = owner
        if not has_room:
            raise ResourceExhaustedError(
                f"a session may have {self._each} {self._noun} at the same time, all sessions "
                f"{shares.limit}, and one of them no more than are left, got one more with {mine} "
                f"of the session's and {others} of all there",
                hint=self._hint,
            )

    def leave(self, key: Hashable) -> None:
        """Give the place back that `key` has; harmless when it has none, or was here before."""
        # One step, so that only one of those who tell of an end goes on.
        owner = self._owners.pop(key, None)
        if owner is None:
            return
        used, shares = self._used, self._shares
        with shares.lock:
            shares.used -= 1
            left = used[owner] - 1
            if left:
                used[owner] = left
            else:
                del used[owner]

    @contextlib.contextmanager
    def taken(self, owner: str) -> Iterator[None]:
        """A place as long as the block; raises as `enter` does."""
        key = object()
        self.enter(key, owner)
        try:
            yield
        finally:
            self.leave(key)
