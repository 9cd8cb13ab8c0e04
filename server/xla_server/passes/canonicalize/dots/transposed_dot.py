"""Transposes of products as products of exchanged operands."""

import dataclasses

from xla_contract.ops.contraction.dot import roles_of
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.rewrite_pass import RewritePass, Rule


class TransposedDot(RewritePass):
    """Exchanges the operands of a dot that only a transpose reads, as in gradients of weights."""

    name = "transposed-dot"
    opcodes = (Opcode.TRANSPOSE,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers = users(computation)

        def product(i: HloInstruction) -> HloInstruction | None:
            (dot,) = i.operands
            is_root = dot is computation.root
            # An instruction that this pass has made has no readers on record.
            if dot.opcode is not Opcode.DOT or is_root or readers.get(dot) != [i]:
                return None
            lhs, rhs = dot.operands
            numbers = dot.attributes.dimension_numbers
            left, right = roles_of(numbers, lhs.shape.rank, rhs.shape.rank)
            batch, rank = len(left.batch), dot.shape.rank
            middle = batch + len(left.free)
            order = (*range(batch), *range(middle, rank), *range(batch, middle))
            if i.attributes.permutation != order:
                return None
            exchanged = DotDimensionNumbers(
                right.contracting, left.contracting, right.batch, left.batch
            )
            precision = dot.attributes.precision[::-1]
            attributes = dataclasses.replace(
                dot.attributes, dimension_numbers=exchanged, precision=precision
            )
            return editor.add(Opcode.DOT, (rhs, lhs), attributes, shape=i.shape)

        return product
