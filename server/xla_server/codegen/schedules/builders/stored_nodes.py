"""The nodes that the stores of a kernel are computed from."""

from collections.abc import Sequence

from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Node, Store, reached, roots_of
from xla_server.ir.analysis.affine import Variable


def prologue_of(stores: Sequence[Store]) -> set[Node]:
    """Return the nodes evaluated before the first work item: they vary with no loop of the nest.

    They may vary with the loops of reductions that are themselves evaluated there.
    """
    inside: set[Variable] = set()
    for reduction in reductions_of(stores):
        if reduction.variables <= inside:
            inside.update(reduction.loops)
    return {node for node in all_nodes(stores) if node.variables <= inside}


def all_nodes(stores: Sequence[Store]) -> list[Node]:
    """Return every node that the stores are computed from, each once."""
    return list(reached(roots_of(stores)))
