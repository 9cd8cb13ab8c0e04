"""Workloads of the compiled platform, by subject."""

from collections.abc import Callable, Iterator, Sequence

from tests.benchmarks.workloads import (
    algorithms,
    contractions,
    control,
    elementwise,
    models,
    movement,
    reductions,
)
from tests.benchmarks.workloads.workload import Workload

GROUPS: dict[str, Callable[[], dict[str, Workload]]] = {
    "control": control.workloads,
    "elementwise": elementwise.workloads,
    "reductions": reductions.workloads,
    "movement": movement.workloads,
    "products": contractions.products,
    "convolutions": contractions.convolutions,
    "windows": contractions.windows,
    "algorithms": algorithms.workloads,
    "models": models.workloads,
}
"""Every group by its name."""


def chosen(words: Sequence[str]) -> Iterator[tuple[str, Workload]]:
    """The workloads whose group or name has one of these words in it; all without any."""
    for group, made in GROUPS.items():
        for name, workload in made().items():
            if not words or any(word in f"{group}: {name}" for word in words):
                yield name, workload
