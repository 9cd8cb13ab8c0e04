"""all-reduce and collective-reduce: operands reduced over a group, element by element.

Semantics: XLA's AllReduce, with the arithmetic of its CPU backend
(`ops/collectives/group_reduction.py`). Members share the work by elements, never by operands, so
that results do not depend on who does it.
"""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import (
    Collective,
    Group,
    Part,
    Read,
    require_equal_shapes,
)
from xla_server.ops.collectives.group_reduction import reduce_in_order
from xla_server.ops.evaluation import Array, Frame, Reduction, Route
from xla_server.ops.numerics.scalar_function import plain_opcode

_LINE = 64
"""Elements that the shares of members are multiples of, so that they do not meet in a line."""


def _fill(group: Group, position: int) -> None:
    (reducer,) = group.instruction.called
    for number in range(len(group.parts[0].operands)):
        sources = [part.operands[number] for part in group.parts]
        results = group.results(number)
        if group.shares > 1:
            sources = [share(source, group.shares, position) for source in sources]
            results = [share(result, group.shares, position) for result in results]
        reduce_in_order(reducer, sources, results[0], group.frame)
        for other in results[1:]:
            other[...] = results[0]


def _reads(read: Read) -> Sequence[Array]:
    return [share(operand, len(read.members), read.target) for operand in read.operands]


def share(array: Array, count: int, position: int) -> Array:
    """The elements of one of `count` shares of a dense array."""
    lines = -(-array.size // _LINE)
    start, end = (lines * n // count * _LINE for n in (position, position + 1))
    return array.reshape(-1)[start:end]


def part(group: Group, result: Array, position: int) -> Array:
    """The elements of a result that are those of one share."""
    return share(result, group.shares, position)


def _reduces(instruction: HloInstruction, frame: Frame) -> Reduction | None:
    (reducer,) = instruction.called
    opcode = plain_opcode(reducer)
    if opcode is None:
        return None

    def reduce(parts: Sequence[Part]) -> Sequence[Array]:
        require_equal_shapes(parts)
        first = [operand.copy() for operand in parts[0].operands]
        if len(parts) > 1:
            for number, result in enumerate(first):
                sources = [part.operands[number].reshape(-1) for part in parts]
                reduce_in_order(reducer, sources, result.reshape(-1), frame)
        return first

    def total(part: Part | None, totals: Sequence[Array]) -> Part:
        return Part(totals, () if part is None else part.results, is_total=True)

    dtypes = [operand.shape.element_type.dtype for operand in instruction.operands]
    return Reduction(opcode, dtypes, reduce, total)


ALL_REDUCE = Collective(_fill, Route.PARTS, _reads, part, reduces=_reduces, is_common=True)
