"""Neighbouring dimensions made one loop where every index moves through them as through one."""

from collections.abc import Callable, Sequence

from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.merging import groups_of, indices_of, merged
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.affine import Affine, Variable, variable

Make = Callable[[Index], Sequence[Store]]
"""Function from an element's index to the stores that compute it."""


Divide = Callable[[Sequence[Variable], Sequence[Store]], int]
"""Function from loops and their stores to the number of equal parts of the last loop but one."""


def collapsed(
    dimensions: Sequence[int], make: Make, divide: Divide | None = None
) -> tuple[tuple[Variable, ...], tuple[Store, ...]]:
    """The loops over `dimensions`, as few as possible, and the stores inside.

    The stores are traced once with a loop for each dimension, to find mergeable ones, and again
    with the remaining loops. A loop that is divided becomes two.
    """
    single = [Variable(size, "i") for size in dimensions]
    stores = tuple(make(tuple(variable(loop) for loop in single)))
    groups = groups_of(single, list(indices_of(stores)))
    loops, indices = merged(groups)
    parts = divide(loops, stores) if divide else 1
    if parts == 1 and len(groups) == sum(loop.size != 1 for loop in single):
        return tuple(loop for loop in single if loop.size != 1), stores
    if parts > 1:
        loops, indices = merged(groups, parts)
    at = tuple(indices.get(loop, Affine(0)) for loop in single)
    return loops, tuple(make(at))
