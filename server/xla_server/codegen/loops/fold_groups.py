"""Reductions that can share one loop: they have the same lengths, and none needs another's
result.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.loops.sum_levels import RUN
from xla_server.codegen.loops.vector_folds import vector_fold
from xla_server.codegen.trace.graph import Fold, Folded, Node, Store, nodes_of


def fold_groups(stores: Sequence[Store]) -> list[tuple[Fold, ...]]:
    """Return all reductions of a kernel in groups, in an order in which they can be executed.

    Only what may be combined in any order is put together: other loops do not become vector code,
    and what they were joined with would not either.
    """
    groups: dict[tuple[object, ...], list[Fold]] = {}
    levels: dict[Fold, int] = {}
    for fold in folds_of(stores):
        level = levels[fold] = 1 + max((levels[other] for other in needed_folds(fold)), default=0)
        key: tuple[object, ...] = (level, fold)
        if is_free(fold):
            key = (level, tuple(loop.size for loop in fold.loops), fold.variables)
        groups.setdefault(key, []).append(fold)
    return [tuple(group) for _, group in sorted(groups.items(), key=lambda item: _level(item[0]))]


def is_free(fold: Fold) -> bool:
    """Return whether elements are combined in any order: short reductions over several loops are
    anyway.

    Keys of floats are combined in less time even one after the other.
    """
    form = vector_fold(fold)
    if form is None:
        return False
    is_one_loop = len(fold.loops) == 1
    return is_one_loop or form.has_keys or math.prod(loop.size for loop in fold.loops) > RUN


def _level(key: tuple[object, ...]) -> int:
    level = key[0]
    assert isinstance(level, int)
    return level


def folds_of(stores: Sequence[Store]) -> list[Fold]:
    """Return every reduction, after those whose results it needs."""
    order: dict[Fold, None] = {}
    seen: set[Node] = set()
    waiting: list[tuple[Node, bool]] = [
        (node, False) for store in stores for node in (store.value, *nodes_of(store.offset))
    ]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            assert isinstance(node, Folded)
            order[node.fold] = None
        elif node not in seen:
            seen.add(node)
            if isinstance(node, Folded):
                waiting.append((node, True))
            waiting += [(part, False) for part in node.inputs()]
    return list(order)


def needed_folds(fold: Fold) -> set[Fold]:
    """Return the reductions whose results a reduction reads directly."""
    found: set[Fold] = set()
    seen: set[Node] = set()
    waiting: list[Node] = [*fold.initial, *fold.combined]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Folded):
            found.add(node.fold)
        else:
            waiting += node.inputs()
    return found
