"""Reductions of reductions done in one."""

from typing import Any

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.queries import combiner, splat
from xla_server.passes.framework.rewrite_pass import RewritePass, Rule
from xla_server.passes.reductions.tree_reduction import neutral_of


class ReduceMerger(RewritePass):
    """Merges a reduction of a reduction into one over both sets of dimensions.

    Both must combine by the same operation, whose order is free. The first must start from the
    operation's neutral element, and the second must be its only user.
    """

    name = "reduce-merger"
    opcodes = (Opcode.REDUCE,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers = users(computation)

        def merged(i: HloInstruction) -> HloInstruction | None:
            first, initial = i.operands[0], i.operands[-1]
            # An instruction that this pass has made has no readers on record.
            if readers.get(first) != [i] or first is computation.root or first is initial:
                return None
            if first.opcode is not Opcode.REDUCE or not len(first.operands) == len(i.operands) == 2:
                return None
            source, start = first.operands
            operation = combiner(i.called[0])
            if operation is None or operation is not combiner(first.called[0]):
                return None
            if not _changes_nothing(operation, start, initial):
                return None
            folded = set(first.attributes.dimensions)
            left = [d for d in range(source.shape.rank) if d not in folded]
            folded |= {left[d] for d in i.attributes.dimensions}
            return editor.reduce(source, initial, sorted(folded), i.called[0])

        return merged


def _changes_nothing(operation: Opcode, start: HloInstruction, initial: HloInstruction) -> bool:
    """Return whether results that are combined with `initial` do not depend on `start`."""
    neutral, value = neutral_of(operation, start.shape.element_type), splat(start)
    if neutral is None or value is None or value != neutral:
        return False
    kind = start.shape.element_type
    if operation is not Opcode.ADD or not (kind.is_floating or kind.is_complex):
        return True
    # 0 is not neutral, as it takes the sign from -0; behind another 0 there is none to take.
    known = splat(initial)
    if not kind.is_complex:
        return _keeps_signs(value, known)
    behind = (None, None) if known is None else (known.real, known.imag)
    return all(map(_keeps_signs, (value.real, value.imag), behind))


def _keeps_signs(zero: Any, known: Any) -> bool:
    """Return whether adding a zero keeps the operand's sign, or that of `known` added later."""
    is_positive_zero = known is not None and known == 0 and not np.signbit(known)
    return bool(np.signbit(zero) or is_positive_zero)
