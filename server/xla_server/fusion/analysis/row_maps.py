"""Test whether a fused computation maps operand elements to result elements one to one, or row by
row.
"""

import math
from collections.abc import Iterable

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import ONE_TO_ONE
from xla_server.ir.module import HloComputation, HloInstruction


def maps_rows(called: HloComputation, start: HloInstruction, columns: int | None) -> bool:
    """Return whether the root's elements need their own element of `start`, or its row reduced.

    The root may be a tuple, of which some elements may not need `start` at all.
    """
    whole, rows = {start}, set[HloInstruction]()
    if not _follow(called, whole, rows, columns):
        return False
    root = called.root
    if root.opcode is Opcode.TUPLE:
        return not rows.intersection(root.operands)
    return root in whole


def follows_rows(
    called: HloComputation,
    whole: Iterable[HloInstruction],
    rows: Iterable[HloInstruction],
    columns: int,
) -> bool:
    """Return whether all that is computed from arrays needs their own element or row.

    `rows` have one value for each row of those that are `whole`.
    """
    return _follow(called, set(whole), set(rows), columns)


def _follow(
    called: HloComputation,
    whole: set[HloInstruction],
    rows: set[HloInstruction],
    columns: int | None,
) -> bool:
    """Add what is computed from arrays, and from one value of each row; return False if from
    others.
    """
    for i in called.instructions:
        if i.opcode is Opcode.TUPLE or not {*i.operands} & (whole | rows):
            continue
        if i.opcode is Opcode.RESHAPE or (
            i.opcode in ONE_TO_ONE
            and all(part.shape.dimensions == i.shape.dimensions for part in i.operands)
        ):
            (whole if {*i.operands} & whole else rows).add(i)
        elif columns is not None and _is_reduced(i, whole, rows, columns):
            rows.add(i)
        elif columns is not None and _is_spread(i, rows, columns):
            whole.add(i)
        else:
            return False
    return True


def _is_reduced(
    i: HloInstruction, whole: set[HloInstruction], rows: set[HloInstruction], columns: int
) -> bool:
    """Return whether an instruction reduces each row of the product to one element."""
    if i.opcode is not Opcode.REDUCE or len(i.operands) != 2:
        return False
    source = i.operands[0].shape.dimensions
    trailing = list(range(i.shape.rank, len(source)))
    return (
        i.operands[0] in whole
        and i.operands[1] not in whole | rows
        and sorted(i.attributes.dimensions) == trailing
        and math.prod(source[d] for d in trailing) == columns
    )


def _is_spread(i: HloInstruction, rows: set[HloInstruction], columns: int) -> bool:
    """Return whether `i` broadcasts one value per row along the columns."""
    if i.opcode is not Opcode.BROADCAST or i.operands[0] not in rows:
        return False
    rank = i.operands[0].shape.rank
    return (
        i.attributes.dimensions == tuple(range(rank))
        and math.prod(i.shape.dimensions[rank:]) == columns
    )
