"""One program through our evaluators and through XLA's CPU backend."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.building import built
from tests.conformance.oracle import evaluated, run_on_xla
from tests.conformance.sweep.draws.subnormal import agreed
from xla_client import Op


def both(function: Callable[..., Op], arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(ours, XLA's) for each result of the program on these arguments."""
    proto = built(function, arguments).proto
    given = list(map(agreed, arguments))
    return list(zip(evaluated(proto, given), run_on_xla(proto, given), strict=True))
