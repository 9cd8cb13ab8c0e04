"""The tables of a run, and its JSON."""

import dataclasses
import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.benchmarks.sweep.measuring import Record

OUTPUT = pathlib.Path("build/bench-sweep.json")
WORST = 30
"""Programs in the table of run times."""

LONGEST = 5
"""Programs in the table of compile times."""

LONG_SECONDS = 50e-6
"""Time of XLA's run from which on what a call itself costs matters little."""

LIMITS = (1.1, 1.5, 2.0)
_FINE = ("ok", "chaotic", "skipped")


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean, NaN of nothing."""
    logarithms = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def report(seed: int, records: Sequence[Record]) -> Iterator[str]:
    """Return the lines: the worst, counts of the slow, means of families, what is wrong."""
    done = sorted((r for r in records if r.is_measured), key=lambda r: r.ratio, reverse=True)
    yield f"seed {seed}: {len(records)} programs, {len(done)} measured; time of a run, XLA = 1"
    yield f"{'ratio':>7} {'XLA us':>9} {'number':>7}  family: program"
    for record in done[:WORST]:
        yield (
            f"{record.ratio:7.2f} {record.peer * 1e6:9.1f} {record.number:7}  "
            f"{record.family}: {record.description}"
        )
    long = [record for record in done if record.peer >= LONG_SECONDS]
    short = [record for record in done if record.peer < LONG_SECONDS]
    yield f"{'':34}{'programs':>9}" + "".join(f"{f'> {limit}':>7}" for limit in LIMITS) + "   mean"
    for name, group in (("XLA takes 50 us or more", long), ("XLA takes less", short)):
        yield _line(name, group)
    yield _line("all", done)
    for family in sorted({record.family for record in done}):
        yield _line(family, [record for record in done if record.family == family])
    yield from _compile_times(done)
    statuses = Counter(record.status for record in records)
    yield "results: " + ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    for record in records:
        if record.status not in _FINE:
            yield f"{record.status} {record.number} {record.family}: {record.note}"
            yield f"    {record.description}"


def _compile_times(done: Sequence[Record]) -> Iterator[str]:
    """Yield the mean and the longest of the compile times, of one compilation each."""
    ratios = {r.number: r.compile_ours / r.compile_peer for r in done if r.compile_peer > 0}
    yield f"compile time, XLA = 1, geometric mean: {geometric_mean(ratios.values()):.2f}"
    longest = sorted(done, key=lambda record: record.compile_ours, reverse=True)[:LONGEST]
    for record in longest:
        yield (
            f"    {ratios.get(record.number, math.nan):.2f}, {record.compile_ours:.2f} s: "
            f"{record.number} {record.family}: {record.description}"
        )


def _line(name: str, group: Sequence[Record]) -> str:
    counts = "".join(f"{sum(r.ratio > limit for r in group):7}" for limit in LIMITS)
    mean = geometric_mean(record.ratio for record in group)
    return f"{name:34}{len(group):9}{counts}{mean:7.2f}"


def write(seed: int, records: Sequence[Record]) -> None:
    """Write build/bench-sweep.json."""
    OUTPUT.parent.mkdir(exist_ok=True)
    programs = [
        dataclasses.asdict(record) | {"ratio": record.ratio if record.is_measured else None}
        for record in records
    ]
    OUTPUT.write_text(json.dumps({"seed": seed, "programs": programs}, indent=1))


def is_bad(record: Record) -> bool:
    """Return whether a record is one of a failure."""
    return record.status not in _FINE
