"""Test whether a fused computation maps operand to result elements one to one, or row by row."""

import math

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import ONE_TO_ONE
from xla_server.ir.module import HloComputation, HloInstruction


def maps_rows(called: HloComputation, start: HloInstruction, columns: int | None) -> bool:
    """Return whether the root's elements need their own element of `start`, or its row reduced.

    The root may be a tuple, of which some elements may not need `start` at all.
    """
    whole, rows = {start}, set[HloInstruction]()
    if not follows_rows(called, whole, rows, columns):
        return False
    root = called.root
    if root.opcode is Opcode.TUPLE:
        return not rows.intersection(root.operands)
    return root in whole


def follows_rows(
    called: HloComputation,
    whole: set[HloInstruction],
    rows: set[HloInstruction],
    columns: int | None,
    *,
    is_first: bool = False,
) -> bool:
    """Return whether all that is computed from arrays needs their own element or row.

    `rows` have one value for each row of those that are `whole`; what is computed from either is
    added to them. Where it `is_first`, rows lie along the first dimension.
    """
    for i in called.instructions:
        if i.opcode is Opcode.TUPLE or not {*i.operands} & (whole | rows):
            continue
        if i.opcode is Opcode.RESHAPE or (
            i.opcode in ONE_TO_ONE
            and all(part.shape.dimensions == i.shape.dimensions for part in i.operands)
        ):
            (whole if {*i.operands} & whole else rows).add(i)
        elif columns is not None and _is_reduced(i, whole, rows, columns, is_first=is_first):
            rows.add(i)
        elif columns is not None and _is_spread(i, rows, columns, is_first=is_first):
            whole.add(i)
        else:
            return False
    return True


def _is_reduced(
    i: HloInstruction,
    whole: set[HloInstruction],
    rows: set[HloInstruction],
    columns: int,
    *,
    is_first: bool,
) -> bool:
    """Return whether an instruction reduces each row of the product to one element."""
    if i.opcode is not Opcode.REDUCE or len(i.operands) != 2:
        return False
    source = i.operands[0].shape.dimensions
    along = _along(len(source), i.shape.rank, is_first=is_first)
    return (
        i.operands[0] in whole
        and i.operands[1] not in whole | rows
        and sorted(i.attributes.dimensions) == list(along)
        and math.prod(source[d] for d in along) == columns
    )


def _is_spread(
    i: HloInstruction, rows: set[HloInstruction], columns: int, *, is_first: bool
) -> bool:
    """Return whether `i` broadcasts one value per row along the columns."""
    if i.opcode is not Opcode.BROADCAST or i.operands[0] not in rows:
        return False
    along = _along(i.shape.rank, i.operands[0].shape.rank, is_first=is_first)
    kept = tuple(d for d in range(i.shape.rank) if d not in along)
    return (
        i.attributes.dimensions == kept
        and math.prod(i.shape.dimensions[d] for d in along) == columns
    )


def _along(rank: int, kept: int, *, is_first: bool) -> range:
    """Return the dimensions along rows, behind those kept or before them."""
    return range(rank - kept) if is_first else range(kept, rank)
