"""Builder of fused computations from instructions and other fusions."""

from collections.abc import Mapping, Sequence

from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rearrange, renew_operands


class FusedBody:
    """Builder of a fusion's computation. `operands` are those of the fusion, in order.

    `instructions` are those of the computation, without parameters.
    """

    def __init__(self, editor: Editor) -> None:
        self.operands: list[HloInstruction] = []
        self._editor = editor
        self._parameters: dict[HloInstruction, HloInstruction] = {}
        self.instructions: list[HloInstruction] = []

    def parameter(self, operand: HloInstruction) -> HloInstruction:
        """Return the parameter of an outer instruction, or the copy of a small constant."""
        known = self._parameters.get(operand)
        if known is None:
            if is_scalar_constant(operand):
                known = self._editor.copy(operand, ())
                self.instructions.append(known)
            else:
                attributes = ParameterAttributes(len(self.operands), operand.shape)
                known = self._editor.add(Opcode.PARAMETER, (), attributes, shape=operand.shape)
                self.operands.append(operand)
            self._parameters[operand] = known
        return known

    def fuse(
        self, i: HloInstruction, inside: Mapping[HloInstruction, HloInstruction]
    ) -> list[HloInstruction]:
        """Copy an instruction, or a fusion's computation, and return its results.

        `inside` maps operands that are computed in this fusion to their copies.
        """
        given = [inside.get(part) or self.parameter(part) for part in i.operands]
        if i.opcode is not Opcode.FUSION:
            self.instructions.append(self._editor.copy(i, given))
            return self.instructions[-1:]
        (called,) = i.called
        copies = dict(zip(called.parameters, given, strict=True))
        for inner in called.instructions:
            if inner.opcode is not Opcode.PARAMETER and inner.opcode is not Opcode.TUPLE:
                copies[inner] = self._editor.copy(inner, [copies[part] for part in inner.operands])
                self.instructions.append(copies[inner])
        return [copies[part] for part in called.results]

    def fusion(
        self, results: Sequence[HloInstruction], name: str, kind: FusionKind = FusionKind.LOOP
    ) -> list[HloInstruction]:
        """Return the instruction of each result: the fusion itself, or an element of its tuple.

        The fused computation becomes one of the editor's `inner` ones.
        """
        editor, root = self._editor, results[0]
        if len(results) > 1:
            root = editor.add(Opcode.TUPLE, results)
            self.instructions.append(root)
        parameters = [self._parameters[operand] for operand in self.operands]
        inside = [*parameters, *self.instructions]
        called = editor.computation(f"fused_{name}", inside, root, parameters)
        editor.inner.append(called)
        attributes = FusionAttributes(kind)
        fusion = editor.add(Opcode.FUSION, self.operands, attributes, [called], shape=root.shape)
        if len(results) == 1:
            return [fusion]
        return [editor.element(fusion, number) for number in range(len(results))]


def replace(
    module: HloModule,
    computation: HloComputation,
    replaced: Mapping[HloInstruction, HloInstruction],
    editor: Editor,
) -> None:
    """Replace instructions by those that `editor` has made, and drop dead ones."""
    editor.insert_inner(module, computation)
    computation.instructions += editor.drain()
    for instruction in computation.instructions:
        renew_operands(instruction, replaced)
    computation.root = replaced.get(computation.root, computation.root)
    rearrange(computation)
