"""all-reduce and collective-reduce: operands folded over a group, element by element.

Semantics: XLA's AllReduce, with the arithmetic of its CPU backend (`ops/fold.py`). Members share
the work by elements, never by operands, so that results do not depend on who does it.
"""

from xla_server.ops.collective import Exchange, Group
from xla_server.ops.fold import fold

_LINE = 64
"""Elements that the shares of members are multiples of, so that they do not meet in a line."""


def _fill(group: Group, place: int) -> None:
    (reducer,) = group.instruction.called
    for number, operand in enumerate(group.parts[0].operands):
        start, end = share_of(operand.size, group.shares, place)
        if start == end:
            continue
        sources = [part.operands[number].reshape(-1)[None, start:end] for part in group.parts]
        first, *others = (array.reshape(-1)[None, start:end] for array in group.results(number))
        fold(reducer, sources, first, group.frame)
        for other in others:
            other[...] = first


def share_of(size: int, count: int, place: int) -> tuple[int, int]:
    """The elements of one of `count` shares."""
    lines = -(-size // _LINE)
    start, end = (min(size, lines * n // count * _LINE) for n in (place, place + 1))
    return start, end


ALL_REDUCE = Exchange(_fill, is_common=True)
