"""Removal of transposes that only dots, convolutions and reductions read."""

import dataclasses

from xla_contract.ops.contraction.dot import free_dimensions
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.canonicalize.convolutions.channels_last import is_worth_it, renumbered
from xla_server.passes.canonicalize.dots.dot_types import (
    has_packing_kernel,
    is_in_order,
    is_stored_as_matrices,
)
from xla_server.passes.canonicalize.transposes.transposed_operands import (
    Readers,
    are_reductions,
    before_transpose,
)
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.rewrite_pass import Rule, TargetRewritePass
from xla_server.target.target import Target


class TransposeFolding(TargetRewritePass):
    """Lets dots, convolutions and reductions read the operands of transposes.

    Conversions, reshapes and other cheap operations between the transpose and the product are moved
    before the transpose. A transpose with another reader stays for that reader. The product may
    have dimensions of size 1 in other positions; a reshape restores them. A large reduction may
    have its result's dimensions in another order; a transpose of the result, which is smaller than
    the operand, restores them. XLA's TransposeFolding does the same for dots, its algebraic
    simplifier for reductions.
    """

    name = "transpose-folding"
    opcodes = (Opcode.DOT, Opcode.CONVOLUTION, Opcode.REDUCE)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        return _Folding(users(computation), editor, self.target).folded


@dataclasses.dataclass(frozen=True, slots=True)
class _Folding:
    """The operations of one computation that read operands before their transposes."""

    readers: Readers
    editor: Editor
    target: Target

    def folded(self, i: HloInstruction) -> HloInstruction | None:
        if i.control_predecessors:
            return None
        if i.opcode is Opcode.REDUCE:
            return self._reduce(i)
        return self._dot(i) if i.opcode is Opcode.DOT else self._convolution(i)

    def _dot(self, i: HloInstruction) -> HloInstruction | None:
        """Return the dot of the operands before their transposes; None if it can read neither."""
        numbers = i.attributes.dimension_numbers
        roles = [
            (numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions),
            (numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions),
        ]
        operands = list(i.operands)
        for number, (batch, contracting) in enumerate(roles):
            # A loop nest reads the left matrix by rows.
            if number == 0 and not has_packing_kernel(i, self.target.capability):
                continue
            operand = operands[number]
            source = before_transpose(operand, i, self.readers, self.editor)
            if source is None:
                continue
            free = free_dimensions(operand.shape.rank, batch, contracting)
            # The result must have the free dimensions in the operand's order.
            if not is_in_order(source.value, source.of(free)):
                continue
            before = source.of(batch), source.of(free), tuple(sorted(source.of(contracting)))
            # An operand that is no matrix before the transpose is copied to rows of contracted
            # elements anyway.
            rows = (*batch, *free, *sorted(contracting))
            if not is_stored_as_matrices(source.value, *before) and is_in_order(operand, rows):
                continue
            operands[number] = source.value
            roles[number] = source.of(batch), source.of(contracting)
        if operands == list(i.operands):
            return None
        (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting) = roles
        numbers = DotDimensionNumbers(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)
        attributes = dataclasses.replace(i.attributes, dimension_numbers=numbers)
        dot = self.editor.add(Opcode.DOT, operands, attributes)
        return self.editor.reshape(dot, i.shape.dimensions)

    def _convolution(self, i: HloInstruction) -> HloInstruction | None:
        """Return the convolution before transposes; None if `ChannelsLast` would undo that."""
        operands, numbers = list(i.operands), i.attributes.dimension_numbers
        for number, array in enumerate(("input", "kernel")):
            source = before_transpose(operands[number], i, self.readers, self.editor)
            if source is not None:
                operands[number] = source.value
                numbers = renumbered(numbers, array, source.order)
        if operands == list(i.operands):
            return None
        attributes = dataclasses.replace(i.attributes, dimension_numbers=numbers)
        folded = dataclasses.replace(i, operands=tuple(operands), attributes=attributes)
        # `ChannelsLast` would restore the order that the convolution has now.
        if is_worth_it(folded, self.target):
            return None
        return self.editor.add(Opcode.CONVOLUTION, operands, attributes, shape=i.shape)

    def _reduce(self, i: HloInstruction) -> HloInstruction | None:
        """Return the reduction of an operand before its transpose, which nothing else reads."""
        if len(i.operands) != 2:
            return None
        operand, initial = i.operands
        source = before_transpose(operand, i, self.readers, self.editor)
        if source is None or not are_reductions(source.transpose, self.readers):
            return None
        reduced = i.attributes.dimensions
        kept = source.of([d for d in range(operand.shape.rank) if d not in reduced])
        is_large = operand.shape.element_count >= self.target.capability.MIN_TILED_TRANSPOSE
        if not is_large and not is_in_order(source.value, kept):
            return None
        result = self.editor.reduce(source.value, initial, sorted(source.of(reduced)), i.called[0])
        in_source = sorted(kept)
        return self.editor.transpose(result, [in_source.index(d) for d in kept])
