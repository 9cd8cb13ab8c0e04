"""Timing of ours against a peer, interleaved in one run; only ratios are reported."""

import dataclasses
import statistics
import time
from collections.abc import Callable


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
            start = time.perf_counter()
            for _ in range(calls):
                function()
            into.append((time.perf_counter() - start) / calls)
    ours_seconds, peer_seconds = map(statistics.median, samples)
    return Comparison(name, peer, ours_seconds, peer_seconds, gate)
