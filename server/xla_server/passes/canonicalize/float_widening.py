"""Accumulation of narrow floats in a wide type, rounded once."""

import dataclasses

from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROUNDED_SUMS
from xla_server.ops.numerics.products import accumulation_type
from xla_server.ops.reduction.wide_reducer import widened
from xla_server.passes.canonicalize.convolutions.library_convolution import library_convolution
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, is_narrow_float
from xla_server.passes.framework.rewrite_pass import TargetRewritePass

_PRODUCTS = frozenset({Opcode.DOT, Opcode.CONVOLUTION})
_REDUCTIONS = frozenset({Opcode.REDUCE, Opcode.REDUCE_WINDOW})
_BY_LAPACK = frozenset({Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE})


@dataclasses.dataclass(frozen=True)
class FloatWidening(TargetRewritePass):
    """Converts operands of accumulations of floats narrower than f32, and of mixed products.

    Reductions by any formula that rounds are computed in f32 and rounded once. Minima, maxima and
    integer products round nothing and stay. Dots of the target's WIDE_SUMS, and convolutions that
    its library computes, accumulate in f32 without conversions.
    """

    name = "float-widening"
    opcodes = _PRODUCTS | _REDUCTIONS | _BY_LAPACK

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if i.opcode in _PRODUCTS:
            return None if self._is_wide(i) else _product(i, editor)
        if i.opcode in _REDUCTIONS:
            return _reduction(i, editor)
        if not is_narrow_float(i.shape.element_type):
            return None
        operands = [editor.convert(operand, ElementType.F32) for operand in i.operands]
        return editor.convert(editor.add(i.opcode, operands, i.attributes), i.shape.element_type)

    def _is_wide(self, i: HloInstruction) -> bool:
        """Return whether the kernel of a product accumulates in a wider type by itself."""
        if i.opcode is Opcode.CONVOLUTION:
            return library_convolution(i, self.target.capability) is not None
        types = _types(i)
        return len(types) == 1 and types <= self.target.capability.WIDE_SUMS


def _reduction(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    reducer = i.called[0]
    opcode = combiner(reducer)
    if opcode in ROUNDED_SUMS and len(i.operands) == 2:
        if not is_narrow_float(i.shape.element_type):
            return None
        return _by(editor.binary_computation(opcode, ElementType.F32), i, editor)
    if reducer not in editor.shared:
        formula = widened(reducer)
        if formula is None:
            return None
        editor.shared[reducer] = _own(formula, editor)
    return _by(editor.shared[reducer], i, editor)


def _by(reducer: HloComputation, i: HloInstruction, editor: Editor) -> HloInstruction:
    """Return the reduction by a wide reducer, rounded to its result types."""
    # Initial values come last, accumulators first.
    count = len(i.operands) // 2
    narrow, wide = (
        [each.shape.element_type for each in (*parameters[count:], *parameters[:count])]
        for parameters in (i.called[0].parameters, reducer.parameters)
    )
    # The interpreter first rounds operands to the reducer's type; so do these conversions.
    operands = [
        editor.convert(editor.convert(operand, first), second)
        for operand, first, second in zip(i.operands, narrow, wide, strict=True)
    ]
    made = editor.add(i.opcode, operands, i.attributes, (reducer,))
    kinds = [leaf.element_type for leaf in i.shape.leaves()]
    parts = zip(editor.elements(made), kinds, strict=True)
    return editor.results_as(i, [editor.convert(part, kind) for part, kind in parts])


def _own(computation: HloComputation, editor: Editor) -> HloComputation:
    """Return a computation with names and numbers that its module does not have yet."""
    copies: dict[HloInstruction, HloInstruction] = {}
    for i in computation.instructions:
        copies[i] = editor.copy(i, [copies[operand] for operand in i.operands])
    inside, parameters = list(copies.values()), [copies[part] for part in computation.parameters]
    name = f"{computation.name}_f32"
    return editor.computation(name, inside, copies[computation.root], parameters)


def _types(i: HloInstruction) -> set[tuple[ElementType, ElementType]]:
    """Return the element type of each operand, paired with that of the result."""
    return {(operand.shape.element_type, i.shape.element_type) for operand in i.operands}


def _product(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    result = i.shape.element_type
    types = (*(operand.shape.element_type for operand in i.operands), result)
    wide = accumulation_type(types)
    if wide is None or set(types) == {wide}:
        return None
    operands = [editor.convert(operand, wide) for operand in i.operands]
    attributes: DotAttributes | ConvolutionAttributes = dataclasses.replace(
        i.attributes, preferred_element_type=wide
    )
    return editor.convert(editor.add(i.opcode, operands, attributes), result)
