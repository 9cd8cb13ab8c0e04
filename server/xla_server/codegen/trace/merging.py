"""Merging of adjacent loops that every index traverses like one."""

import math
from collections.abc import Iterable, Sequence

from xla_server.codegen.trace.graph import Load, Node, Position, Store, reached, roots_of
from xla_server.ir.analysis.affine import Affine, Computed, Variable, multi_index, variable


def merged(
    groups: Sequence[Sequence[Variable]], parts: int = 1
) -> tuple[tuple[Variable, ...], dict[Variable, Affine]]:
    """Return a loop for each group of loops, and the old variables in terms of the new ones.

    The loop before the last is split into `parts` equal parts, with a loop over them around it.
    A group of one loop that is not split is that loop.
    """
    loops: list[Variable] = []
    indices: dict[Variable, Affine] = {}
    for number, group in enumerate(groups):
        if len(group) == 1 and (parts == 1 or number != len(groups) - 2):
            loops += group
            indices[group[0]] = variable(group[0])
            continue
        sizes = [loop.size for loop in group]
        size = math.prod(sizes)
        index = Affine()
        if parts > 1 and number == len(groups) - 2:
            size //= parts
            loops.append(Variable(parts, "i"))
            index = variable(loops[-1]) * size
        loops.append(Variable(size, "i"))
        index += variable(loops[-1])
        indices.update(zip(group, multi_index(index, sizes), strict=True))
    return tuple(loops), indices


def groups_of(loops: Sequence[Variable], indices: Sequence[Affine]) -> list[list[Variable]]:
    """Return runs of adjacent loops that can be merged, without loops of one iteration."""
    coefficients = [
        {atom: factor for atom, factor in index.terms if isinstance(atom, Variable)}
        for index in indices
    ]
    inside: set[object] = set()
    for index in indices:
        for atom, _ in index.terms:
            if not isinstance(atom, (Variable, Computed)):
                inside |= {part for part in atom.operand.atoms() if isinstance(part, Variable)}
    groups: list[list[Variable]] = []
    for loop in loops:
        if loop.size == 1:
            continue
        before = groups[-1][-1] if groups else None
        if (
            before is not None
            and before not in inside
            and loop not in inside
            and all(c.get(before, 0) == c.get(loop, 0) * loop.size for c in coefficients)
        ):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return groups


def indices_of(stores: Iterable[Store]) -> Iterable[Affine]:
    """Every index that the stores and their transitive inputs use, each once."""
    stores = list(stores)
    return dict.fromkeys([*(store.offset for store in stores), *indices_in(roots_of(stores))])


def indices_in(nodes: Iterable[Node]) -> Iterable[Affine]:
    """Return every index that nodes and their transitive inputs use, each once."""
    found: dict[Affine, None] = {}
    for node in reached(nodes):
        if isinstance(node, Load):
            found[node.offset] = None
        elif isinstance(node, Position):
            found[node.index] = None
    return found
