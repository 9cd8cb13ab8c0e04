"""The extent of a sweep: a fixed slice, or with CONFORMANCE=full all of it."""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

FULL = os.environ.get("CONFORMANCE") == "full"

A = TypeVar("A")
B = TypeVar("B")


def drawn(slice_of: int, full: int) -> Callable[[Any], Any]:
    """Hypothesis settings: `slice_of` examples or `full` ones, in every run the same."""
    return settings(
        max_examples=full if FULL else slice_of,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def paired(first: Iterable[A], second: Iterable[B], count: int = 1) -> list[tuple[A, B]]:
    """Return every pair with CONFORMANCE=full; else each of `first` with `count` of `second`.

    Those of `second` are taken by turns, so that the slice has all of them about equally often.
    """
    others = list(second)
    if FULL:
        return list(itertools.product(first, others))
    turns = itertools.cycle(others)
    return [(each, next(turns)) for each in first for _ in range(count)]
