"""How much of the sweep is drawn: a fixed slice, or with CONFORMANCE=full all of it."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

FULL = os.environ.get("CONFORMANCE") == "full"


def drawn(slice_of: int, full: int) -> Callable[[Any], Any]:
    """Hypothesis settings: `slice_of` examples or `full` ones, in every run the same."""
    return settings(
        max_examples=full if FULL else slice_of,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
