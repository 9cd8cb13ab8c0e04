"""Shares of the server's resources that one identity and one connection may have.

A caller may have at most a share of what others leave: of a limit L of which others have U, the
share s of L - U. So one caller alone has at most s * L, something is always left for the next
caller, and several callers that want everything get about equal parts. The rule holds for the
identity of a caller and, with a smaller share, for each of its connections: without authentication
all clients of a host have one identity.
"""

import dataclasses
import threading
from collections.abc import Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import Caller

Level = tuple[str, str]
"""A holder of resources: "identity" or "connection", and its name."""


@dataclasses.dataclass(frozen=True, slots=True)
class CallerShares:
    """The largest shares of what others leave; 1 for all of it."""

    identity: float = 1.0
    connection: float = 1.0

    def of(self, kind: str) -> float:
        """Return the share of a kind of level."""
        return self.identity if kind == "identity" else self.connection


EVERYTHING = CallerShares()
"""Shares by which one caller may take everything."""


def levels(caller: Caller) -> Iterator[Level]:
    """Yield the levels that the use of a caller counts for."""
    yield "identity", caller.identity
    if caller.connection:
        yield "connection", caller.connection


class SharedLimit:
    """The limit of one resource, and its use: in total, by each identity and by each connection.

    Methods are called with `lock` held, or with a lock of the resource's own.
    """

    def __init__(self, limit: int, shares: CallerShares = EVERYTHING) -> None:
        self.limit = limit
        self.used = 0
        """Use by all together."""
        self._shares = shares
        self._used: dict[Level, int] = {}
        self.lock = threading.Lock()

    def used_by(self, level: Level) -> int:
        """Return how much a level uses."""
        return self._used.get(level, 0)

    def add(self, caller: Caller | None, amount: int) -> None:
        """Count `amount` more, or less if it is negative, for a caller, or in total alone."""
        self.used += amount
        if caller is not None:
            for level in levels(caller):
                self.add_to(level, amount)

    def add_to(self, level: Level, amount: int) -> None:
        """Count for one level, and not in total."""
        used = self._used.get(level, 0) + amount
        if used:
            self._used[level] = used
        else:
            self._used.pop(level, None)

    def exceeded(self, caller: Caller, amount: int, beyond: int = 0) -> Level | None:
        """Return the level of a caller that may not have `amount` more of the limit and `beyond`.

        A level that has nothing may have one in any case.
        """
        return next(
            (each for each in levels(caller) if not self.admits(each, amount, beyond=beyond)), None
        )

    def admits(
        self, level: Level, amount: int, used: int | None = None, *, beyond: int = 0
    ) -> bool:
        """Return whether a level may have `amount` more, with `used` in use if it is stated."""
        share = self._shares.of(level[0])
        if share >= 1:
            return True
        mine = self._used.get(level, 0)
        used = self.used if used is None else used
        return mine + amount <= max(1, share * (self.limit + beyond - used + mine))

    def refusal(
        self, level: Level, amount: int, noun: str, hint: str, *, beyond: int = 0
    ) -> ResourceExhaustedError:
        """Return the error for a level that may not have `amount` more.

        Args:
            noun: The plural of what is counted.
            hint: Advice to the caller.
            beyond: Amount beyond the limit, as in `exceeded`.
        """
        kind, _ = level
        used, limit, mine = self.used, self.limit + beyond, self._used.get(level, 0)
        share = self._shares.of(kind)
        article = "an" if kind == "identity" else "a"
        return ResourceExhaustedError(
            f"{article} {kind} may have {share:.4g} of the {limit} {noun} less those of "
            f"others, which is {max(1, int(share * (limit - used + mine)))} now, got {amount} "
            f"more with {mine} in use and {used - mine} of others",
            hint=hint,
        )
