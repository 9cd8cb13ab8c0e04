"""Timing of ours against a peer, interleaved in one run; only ratios are reported."""

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One line of the table: medians in seconds of one call of ours and one of the peer's."""

    name: str
    peer: str
    ours_seconds: float
    peer_seconds: float
    gate: float | None = None
    """The least speed wanted, if one is."""

    @property
    def speed(self) -> float:
        """Our speed as a multiple of the peer's; above 1 ours is faster."""
        return self.peer_seconds / self.ours_seconds


def timed(function: Callable[[], object], calls: int = 1) -> float:
    """Return the seconds of a call, of so many."""
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - started) / calls


def mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def show(name: str, ratios: Iterable[float], wrong: str = "") -> None:
    """Print a line of a table as soon as it is known."""
    figures = "".join(f"{ratio:10.2f}" if ratio > 0.1 else f"{ratio:10.3f}" for ratio in ratios)
    print(f"{name:32}{figures}  {wrong}".rstrip(), flush=True)


def compare(
    name: str,
    peer: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 7,
    calls: int = 1,
    gate: float | None = None,
) -> Comparison:
    """Time both, alternating, `rounds` times `calls` calls each, after one warm-up of each."""
    ours()
    theirs()
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, into in zip((ours, theirs), samples, strict=True):
            into.append(timed(function, calls))
    ours_seconds, peer_seconds = map(statistics.median, samples)
    return Comparison(name, peer, ours_seconds, peer_seconds, gate)
