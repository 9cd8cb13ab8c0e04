"""The share of all seconds of compiling that one identity, and one connection, may take."""

import contextlib
import threading
from collections.abc import Iterator

from xla_server.sessions.limits.compile_budget import CompileBudget
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares, Level, levels

_MANY = 4096
"""Number of levels from which those without compilation within the hour are dropped."""


class CompileShare:
    """Compiling of all callers within the last hour. Thread-safe.

    Args:
        limit: Seconds that all threads together can compile within an hour.
        shares: The largest shares of it that one caller may have.
    """

    def __init__(self, limit: float, shares: CallerShares) -> None:
        self._limit = limit
        self._shares = shares
        self._budgets: dict[Level, CompileBudget] = {}
        self._lock = threading.Lock()

    def require(self, caller: Caller) -> None:
        """Raise ResourceExhaustedError when a caller has compiled for its share."""
        for level in levels(caller):
            budget = self._budgets.get(level)
            if budget is not None:
                share = f"{budget.limit:g} of the {self._limit:g} s that the server has"
                budget.require(f"one {level[0]} may compile for {share}")

    @contextlib.contextmanager
    def spending(self, caller: Caller) -> Iterator[None]:
        """Count the time of the block for a caller."""
        with contextlib.ExitStack() as stack:
            for level in levels(caller):
                stack.enter_context(self._budget(level).spending())
            yield

    def _budget(self, level: Level) -> CompileBudget:
        with self._lock:
            if len(self._budgets) >= _MANY:
                self._budgets = {
                    name: budget for name, budget in self._budgets.items() if budget.used
                }
            budget = self._budgets.get(level)
            if budget is None:
                share = self._shares.of(level[0])
                budget = self._budgets[level] = CompileBudget(share * self._limit)
            return budget
