"""The batch-norm operations in terms of reductions and arithmetic."""

import math

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.formula import Term
from xla_server.passes.framework.rewrite_pass import RewritePass


class BatchNormExpander(RewritePass):
    """Expands normalisations, in at least f32, so that their parts can be fused.

    With n = 1 / sqrt(variance + epsilon), a feature becomes (x - mean) * n * scale + offset.
    """

    name = "batch-norm-expander"
    opcodes = (Opcode.BATCH_NORM_TRAINING, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_GRAD)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        work = _Normalisation(i, editor)
        if i.opcode is Opcode.BATCH_NORM_TRAINING:
            return work.training()
        return work.inference() if i.opcode is Opcode.BATCH_NORM_INFERENCE else work.gradient()


class _Normalisation:
    """Expansion of one batch-norm instruction."""

    def __init__(self, i: HloInstruction, editor: Editor) -> None:
        self._instruction, self._editor = i, editor
        self._feature = i.attributes.feature_index
        is_double = i.operands[0].shape.element_type is ElementType.F64
        self._type = ElementType.F64 if is_double else ElementType.F32
        self._operands = [Term(editor, editor.convert(part, self._type)) for part in i.operands]
        self._sizes = i.operands[0].shape.dimensions
        self._adder = editor.binary_computation(Opcode.ADD, self._type)

    def training(self) -> HloInstruction:
        operand, scale, offset = self._operands
        mean = self._mean(operand)
        centred = operand - self._wide(mean)
        variance = self._mean(centred * centred)
        normalised = self._scaled(centred, variance, scale, offset)
        return self._result(normalised, mean, variance)

    def inference(self) -> HloInstruction:
        operand, scale, offset, mean, variance = self._operands
        normalised = self._scaled(operand - self._wide(mean), variance, scale, offset)
        return normalised.converted(self._instruction.shape.element_type).instruction

    def gradient(self) -> HloInstruction:
        operand, scale, mean, variance, gradient = self._operands
        inverse = self._inverse(variance)
        centred = (operand - self._wide(mean)) * self._wide(inverse)
        of_scale, of_offset = self._sum(gradient * centred), self._sum(gradient)
        shared = self._wide(of_offset) + centred * self._wide(of_scale)
        of_operand = self._wide(scale * inverse) * (gradient - shared / self._count())
        return self._result(of_operand, of_scale, of_offset)

    def _scaled(self, centred: Term, variance: Term, scale: Term, offset: Term) -> Term:
        factor = self._wide(self._inverse(variance))
        return centred * factor * self._wide(scale) + self._wide(offset)

    def _inverse(self, variance: Term) -> Term:
        epsilon: float = self._instruction.attributes.epsilon
        return (variance + epsilon).apply(Opcode.RSQRT)

    def _mean(self, operand: Term) -> Term:
        # An empty batch has the mean 0 / 0.
        return self._sum(operand) / (self._count() if 0 not in self._sizes else 0)

    def _count(self) -> int:
        sizes = (size for d, size in enumerate(self._sizes) if d != self._feature)
        return max(1, math.prod(sizes))

    def _sum(self, operand: Term) -> Term:
        others = [d for d in range(len(self._sizes)) if d != self._feature]
        zero = self._editor.constant(0, self._type)
        total = self._editor.reduce(operand.instruction, zero, others, self._adder)
        return Term(self._editor, total)

    def _wide(self, features: Term) -> Term:
        wide = self._editor.broadcast(features.instruction, (self._feature,), self._sizes)
        return Term(self._editor, wide)

    def _result(self, *parts: Term) -> HloInstruction:
        kinds = [shape.element_type for shape in self._instruction.shape.tuple_shapes]
        converted = [part.converted(kind) for part, kind in zip(parts, kinds, strict=True)]
        return self._editor.add(Opcode.TUPLE, [part.instruction for part in converted])
