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
        and not _reads_old_neighbours(i, computation, readers[i.operands[0]])
    }


def _reads_old_neighbours(
    i: HloInstruction, computation: HloComputation, readers: Sequence[HloInstruction]
) -> bool:
    """Return whether the loop of an update reads elements elsewhere of a state that it replaces."""
    old, new, *starts = i.operands
    is_state = old.opcode is Opcode.GET_TUPLE_ELEMENT and old.operands[0] in computation.parameters
    if not is_state or computation.root in readers:
        return False
    first = tuple(start.attributes.literal.to_numpy().item() for start in starts)
    fused = reached([new], lambda part: part.operands if is_fusible(part) else ())
    return any(
        old in part.operands
        and not (
            part.opcode is Opcode.SLICE
            and part.attributes.starts == first
            and part.shape.dimensions == new.shape.dimensions
        )
        for part in fused
    )
