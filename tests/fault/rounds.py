"""Rounds of a fault test: one, or as many as there is time for in a soak.

`make soak` gives the time, in minutes, by SOAK_MINUTES. It is shared among the tests: each has an
equal part of what is left when it begins, and ends with the round in which that is over.
"""

import dataclasses
import os
import time
from collections.abc import Iterator

import numpy as np
import psutil

from tests.e2e.fork_server import MODULE as FORK_SERVER

MINUTES = float(os.environ.get("SOAK_MINUTES", "0"))
IS_SOAK = MINUTES > 0

_LEAKING_ROUNDS = 10
"""Number of rounds from which one more descriptor in each of them is a leak."""


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """Resources of the server processes of this one."""

    resident_bytes: int
    threads: int
    descriptors: int


@dataclasses.dataclass(slots=True)
class Soaked:
    """Record of a test: its rounds, and the servers' resources after the first and the last."""

    rounds: int = 0
    seconds: float = 0.0
    first: Resources | None = None
    last: Resources | None = None


class Clock:
    """The time of a soak and whose it is."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._test = ""
        self._until = 0.0
        self.soaked: dict[str, Soaked] = {}

    @property
    def seconds(self) -> float:
        """Return the seconds since the soak began."""
        return time.monotonic() - self._began

    def begin(self, test: str, tests_left: int) -> None:
        """Give a test its part of the time; it is one of those that are left."""
        now = time.monotonic()
        self._test = test
        self._until = now + max(0.0, MINUTES * 60 - self.seconds) / tests_left

    def rounds(self) -> Iterator[int]:
        """The numbers of the rounds of the test that has begun, one at least."""
        began, number = time.monotonic(), 0
        soaked = self.soaked.setdefault(self._test, Soaked())
        while True:
            yield number
            number += 1
            soaked.rounds += 1
            if not IS_SOAK:
                return
            soaked.last = _resources()
            soaked.first = soaked.first or soaked.last
            soaked.seconds = time.monotonic() - began
            if time.monotonic() >= self._until:
                break
        more = soaked.last.descriptors - soaked.first.descriptors
        assert soaked.rounds < _LEAKING_ROUNDS or more < soaked.rounds, (
            f"the server must use no more descriptors behind {soaked.rounds} rounds than behind "
            f"the first, got {more} more"
        )


CLOCK = Clock()


def rounds() -> Iterator[int]:
    """The numbers of the rounds of a test: 0, and in a soak more of them."""
    return CLOCK.rounds()


def chosen(round_number: int, first: int, low: int, high: int) -> int:
    """A number of a round: `first` in the first one, then any from `low` to `high`.

    It is the same in every soak.
    """
    if not round_number:
        return first
    return int(np.random.default_rng([first, round_number]).integers(low, high))


def _resources() -> Resources:
    found = Resources(0, 0, 0)
    for process in psutil.Process().children():
        try:
            if not {"xla_server", FORK_SERVER} & set(process.cmdline()):
                continue
            found = Resources(
                found.resident_bytes + process.memory_info().rss,
                found.threads + process.num_threads(),
                found.descriptors + process.num_fds(),
            )
        except psutil.Error:  # It has ended, as the test wanted.
            continue
    return found
