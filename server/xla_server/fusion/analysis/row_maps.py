"""Tests whether loops map elements one to one or row by row, so that one kernel can hold them."""

import dataclasses
import math
from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import ONE_TO_ONE
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.queries import combiner


def maps_rows(called: HloComputation, start: HloInstruction, columns: int | None) -> bool:
    """Return whether the root's elements need only their own element, or row, of `start`.

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
    """Return whether all values computed from arrays need only their own element or row.

    `rows` have one value for each row of the arrays in `whole`; values computed from either are
    added to these sets. If `is_first`, rows go along the first dimension.
    """
    for i in called.instructions:
        if i.opcode is Opcode.TUPLE or not {*i.operands} & (whole | rows):
            continue
        if i.opcode is Opcode.RESHAPE or (i.opcode in ONE_TO_ONE and _has_equal_sizes(i)):
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
    """Return the dimensions along rows, which follow the kept ones, or precede them."""
    return range(rank - kept) if is_first else range(kept, rank)


@dataclasses.dataclass(frozen=True, slots=True)
class RowKernel:
    """The dimensions of a loop's space, and the reduced one, if any.

    Columns are rows along the first dimension.
    """

    dimensions: tuple[int, ...]
    reduced: int | None

    @property
    def kept(self) -> tuple[int, ...]:
        """The dimensions of results with one element for each row."""
        return self.dimensions[1:] if self.reduced == 0 else self.dimensions[:-1]

    @classmethod
    def of(cls, i: HloInstruction) -> "RowKernel | None":
        """Return the RowKernel of a loop; None if reductions or results do not go along rows."""
        inside = i.called[0].instructions if i.opcode is Opcode.FUSION else [i]
        roots = i.called[0].results if i.opcode is Opcode.FUSION else (i,)
        reductions = [part for part in inside if part.opcode is Opcode.REDUCE]
        found = [each.operands[0].shape.dimensions for each in reductions]
        found += [each.shape.dimensions for each in roots if each not in reductions]
        dimensions = max(found, key=len)
        if any(each.opcode in _OF_OTHER_KINDS for each in roots):
            return None
        along = {each.attributes.dimensions for each in reductions}
        if len(along) > 1 or not along <= {(0,), (len(dimensions) - 1,)}:
            return None
        for each in reductions:
            is_known = len(each.operands) == 2 and combiner(each.called[0]) is not None
            if each.operands[0].shape.dimensions != dimensions or not is_known:
                return None
        kernel = cls(dimensions, next(iter(along))[0] if along else None)
        if any(each.shape.dimensions not in (dimensions, kernel.kept) for each in roots):
            return None
        return kernel


_OF_OTHER_KINDS = frozenset({Opcode.CONCATENATE, Opcode.REDUCE_WINDOW, Opcode.TRANSPOSE})


def continues_rows(
    reader: HloInstruction,
    producer: HloInstruction,
    read: Mapping[HloInstruction, int],
    max_columns: int,
) -> bool:
    """Return whether a reader can be computed by rows in the loop over its producer's rows.

    `read` are operands of the reader that are results of the producer, by rank. Columns of arrays
    of more than `max_columns` elements are not continued.
    """
    kernels = [RowKernel.of(i) for i in (reader, producer)]
    found = [kernel for kernel in kernels if kernel is not None]
    along = {kernel.reduced for kernel in found} - {None}
    if len(found) < 2 or len(along) != 1:
        return False
    whole = max((kernel.dimensions for kernel in found), key=len)
    reducing = next(kernel for kernel in found if kernel.reduced is not None)
    if any(kernel.dimensions not in (whole, reducing.kept) for kernel in found):
        return False
    if any(kernel.reduced is not None and kernel.dimensions != whole for kernel in found):
        return False
    is_first = reducing.reduced == 0 and len(whole) > 1
    # Results for rows and for columns of a square array have the same shape.
    if is_first and (math.prod(whole) > max_columns or whole[1:] == whole[:-1]):
        return False
    if reader.opcode is not Opcode.FUSION:
        return reader.opcode is Opcode.REDUCE or _has_equal_sizes(reader)
    (called,) = reader.called
    pairs = zip(called.parameters, reader.operands, strict=True)
    starts = {parameter: read[operand] for parameter, operand in pairs if operand in read}
    rows = {start for start, rank in starts.items() if rank < len(whole)}
    length = whole[0] if is_first else whole[-1]
    return follows_rows(called, starts.keys() - rows, rows, length, is_first=is_first)


def _has_equal_sizes(i: HloInstruction) -> bool:
    return all(part.shape.dimensions == i.shape.dimensions for part in i.operands)
