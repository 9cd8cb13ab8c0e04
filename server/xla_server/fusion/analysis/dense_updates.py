"""Updates of most of an array, which a loop over the whole array computes."""

from collections.abc import Mapping, Sequence

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_fusible, is_scalar_constant
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.traversal import reached


def dense_updates(
    computation: HloComputation,
    readers: Mapping[HloInstruction, Sequence[HloInstruction]],
    min_share: float,
    *,
    is_entry: bool,
) -> set[HloInstruction]:
    """Return the updates of at least a share of an array, at constant indices.

    An update of a loop's state that reads elements next to its own is left out: a loop over the
    whole array cannot overwrite them, so its result would be copied to the state.
    """
    return {
        i
        for i in computation.instructions
        if i.opcode is Opcode.DYNAMIC_UPDATE_SLICE
        and all(map(is_scalar_constant, i.operands[2:]))
        and i.operands[1].shape.element_count >= min_share * i.shape.element_count > 0
        and (is_entry or not _reads_neighbours(i, computation.root, readers[i.operands[0]]))
    }


def _reads_neighbours(
    update: HloInstruction, root: HloInstruction, readers: Sequence[HloInstruction]
) -> bool:
    """Return whether the loop of an update reads old elements, which nothing else needs, elsewhere.

    `readers` are those of the old array.
    """
    old, new, *starts = update.operands
    if old.opcode is not Opcode.GET_TUPLE_ELEMENT or root in readers:
        return False
    first = tuple(start.attributes.literal.to_numpy().item() for start in starts)
    others = {
        i
        for i in readers
        if i is not update
        and not (
            i.opcode is Opcode.SLICE
            and i.attributes.starts == first
            and i.shape.dimensions == new.shape.dimensions
        )
    }
    fused = reached([new], lambda i: i.operands if is_fusible(i) else ())
    return not others.isdisjoint(fused)
