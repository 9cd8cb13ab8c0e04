"""The batch-norm operations in terms of reductions and arithmetic."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class BatchNormExpander(RewritePass):
    """Writes normalisations out, in f32 at least, for fusion to find their parts.

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
        self._operands = [editor.convert(operand, self._type) for operand in i.operands]
        self._sizes = i.operands[0].shape.dimensions
        self._adder = editor.binary_computation(Opcode.ADD, self._type)

    def training(self) -> HloInstruction:
        operand, scale, offset = self._operands
        mean = self._mean(operand)
        centred = self._sub(operand, self._wide(mean))
        variance = self._mean(self._mul(centred, centred))
        normalised = self._scaled(centred, variance, scale, offset)
        return self._result(normalised, mean, variance)

    def inference(self) -> HloInstruction:
        operand, scale, offset, mean, variance = self._operands
        centred = self._sub(operand, self._wide(mean))
        normalised = self._scaled(centred, variance, scale, offset)
        return self._editor.convert(normalised, self._instruction.shape.element_type)

    def gradient(self) -> HloInstruction:
        operand, scale, mean, variance, gradient = self._operands
        inverse = self._inverse(variance)
        centred = self._mul(self._sub(operand, self._wide(mean)), self._wide(inverse))
        of_scale = self._sum(self._mul(gradient, centred))
        of_offset = self._sum(gradient)
        along = self._mul(centred, self._wide(of_scale))
        shared = self._add(self._wide(of_offset), along)
        count = self._editor.full(self._count(), self._type, self._sizes)
        shift = self._editor.add(Opcode.DIVIDE, (shared, count))
        factor = self._wide(self._mul(scale, inverse))
        of_operand = self._mul(factor, self._sub(gradient, shift))
        return self._result(of_operand, of_scale, of_offset)

    def _scaled(
        self,
        centred: HloInstruction,
        variance: HloInstruction,
        scale: HloInstruction,
        offset: HloInstruction,
    ) -> HloInstruction:
        factor = self._wide(self._inverse(variance))
        scaled = self._mul(self._mul(centred, factor), self._wide(scale))
        return self._add(scaled, self._wide(offset))

    def _inverse(self, variance: HloInstruction) -> HloInstruction:
        epsilon = self._instruction.attributes.epsilon
        shift = self._editor.full(epsilon, self._type, variance.shape.dimensions)
        return self._editor.add(Opcode.RSQRT, (self._add(variance, shift),))

    def _mean(self, operand: HloInstruction) -> HloInstruction:
        total = self._sum(operand)
        # An empty batch has the mean 0 / 0.
        divisor = self._count() if 0 not in self._sizes else 0
        count = self._editor.full(divisor, self._type, total.shape.dimensions)
        return self._editor.add(Opcode.DIVIDE, (total, count))

    def _count(self) -> int:
        count = 1
        for dimension, size in enumerate(self._sizes):
            if dimension != self._feature:
                count *= size
        return max(1, count)

    def _sum(self, operand: HloInstruction) -> HloInstruction:
        others = [d for d in range(len(self._sizes)) if d != self._feature]
        zero = self._editor.constant(0, self._type)
        return self._editor.reduce(operand, zero, others, self._adder)

    def _wide(self, features: HloInstruction) -> HloInstruction:
        return self._editor.broadcast(features, (self._feature,), self._sizes)

    def _add(self, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        return self._editor.add(Opcode.ADD, (lhs, rhs))

    def _sub(self, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        return self._editor.add(Opcode.SUBTRACT, (lhs, rhs))

    def _mul(self, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        return self._editor.add(Opcode.MULTIPLY, (lhs, rhs))

    def _result(self, *parts: HloInstruction) -> HloInstruction:
        shapes = self._instruction.shape.tuple_shapes
        converted = [
            self._editor.convert(part, shape.element_type)
            for part, shape in zip(parts, shapes, strict=True)
        ]
        return self._editor.add(Opcode.TUPLE, converted)
