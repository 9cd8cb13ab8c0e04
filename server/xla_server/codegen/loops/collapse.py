"""Neighbouring dimensions made one loop where every index moves through them as through one."""

from collections.abc import Callable, Sequence

from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.merging import groups_of as groups_of
from xla_server.codegen.trace.merging import indices_of as indices_of
from xla_server.codegen.trace.merging import merged as merged
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.affine import Affine, Variable, variable

Make = Callable[[Index], Sequence[Store]]
"""Function from an element's index to the stores that compute it."""


def collapsed(
    dimensions: Sequence[int], make: Make
) -> tuple[tuple[Variable, ...], tuple[Store, ...]]:
    """The loops over `dimensions`, as few as possible, and the stores inside.

    The stores are traced once with a loop for each dimension, to see how indices move, and once
    more with the loops that are left.
    """
    single = [Variable(size, "i") for size in dimensions]
    stores = tuple(make(tuple(variable(loop) for loop in single)))
    groups = groups_of(single, list(indices_of(stores)))
    if len(groups) == sum(loop.size != 1 for loop in single):
        return tuple(loop for loop in single if loop.size != 1), stores
    loops, indices = merged(groups)
    at = tuple(indices.get(loop, Affine(0)) for loop in single)
    return loops, tuple(make(at))
