"""Merging of adjacent dimensions into one loop, where every index is linear in the merged one."""

from collections.abc import Callable, Sequence

from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.merging import groups_of, indices_of, merged
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.analysis.affine import Affine, Variable, variable

Make = Callable[[Index], Sequence[Store]]
"""Function from an element's index to the stores that compute it."""


Divide = Callable[[Sequence[Variable], Sequence[Store]], int]
"""Function from loops and their stores to the number of equal parts of the last loop but one."""


def collapsed(
    dimensions: Sequence[int], make: Make, divide: Divide | None = None
) -> tuple[tuple[Variable, ...], tuple[Store, ...]]:
    """Return the fewest loops that cover `dimensions`, and the stores inside them.

    The stores are traced with one loop per dimension, to find which can be merged, and again with
    merged loops, if any. `divide` may then split the last loop but one in two.
    """
    single = [Variable(size, "i") for size in dimensions]
    return collapsed_loops(single, tuple(make(tuple(map(variable, single)))), make, divide)


def collapsed_loops(
    single: Sequence[Variable], stores: tuple[Store, ...], make: Make, divide: Divide | None = None
) -> tuple[tuple[Variable, ...], tuple[Store, ...]]:
    """Return the result of `collapsed` for stores traced already, with the loops `single`."""
    groups = groups_of(single, list(indices_of(stores)))
    loops, indices = merged(groups)
    parts = divide(loops, stores) if divide else 1
    if parts == 1 and len(groups) == sum(loop.size != 1 for loop in single):
        return tuple(loop for loop in single if loop.size != 1), stores
    if parts > 1:
        loops, indices = merged(groups, parts)
    at = tuple(indices.get(loop, Affine(0)) for loop in single)
    return loops, tuple(make(at))
