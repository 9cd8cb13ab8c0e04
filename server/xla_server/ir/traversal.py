"""Traversals of graphs of any depth, without recursion, and of nested tuples."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from xla_server.ir.module import HloComputation

T = TypeVar("T")


def reached(roots: Iterable[T], successors: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield the roots and all nodes reachable from them, each once.

    `successors` is called for a node after the node is yielded.
    """
    found: set[T] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            yield node
            waiting += successors(node)


def in_post_order(roots: Iterable[T], successors: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield the roots and all nodes reachable from them, each once and after its successors."""
    found: set[T] = set()
    waiting = [(root, False) for root in reversed([*roots])]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            yield node
        elif node not in found:
            found.add(node)
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed([*successors(node)])]


def callees_first(roots: Iterable[HloComputation]) -> Iterator[HloComputation]:
    """Yield computations and all that they call, each once and after those it calls."""
    return in_post_order(roots, lambda each: (c for i in each.instructions for c in i.called))


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the parts of nested tuples that are neither tuples nor None, in order."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    elif tree is not None:
        yield tree
