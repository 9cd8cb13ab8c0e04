"""Epilogues of products that a library computes: they are done to elements in registers."""

import dataclasses

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.product_chain import ProductChains
from xla_server.fusion.fused_body import FusedBody, replace
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor


@dataclasses.dataclass(frozen=True)
class ProductEpilogues:
    """Fuses a dot with the scale, sum, bias and activation behind it, as far as one call does them.

    It comes before loop fusion, which would take them into the loops of their readers.
    """

    name: str = "product-epilogues"

    def apply(self, module: HloModule) -> bool:
        """Fuse in the entry and in the computations of its loops and branches."""
        changed = False
        for computation in module.sequential():
            changed |= self._fuse(module, computation)
        return changed

    def _fuse(self, module: HloModule, computation: HloComputation) -> bool:
        editor, chains = Editor(module), ProductChains(computation)
        order = {i: number for number, i in enumerate(computation.instructions)}
        replaced: dict[HloInstruction, HloInstruction] = {}
        for dot in computation.instructions:
            if dot.opcode is not Opcode.DOT or dot.control_predecessors:
                continue
            chain = chains.take(dot)
            if not chain.inside:
                continue
            body, copies = FusedBody(editor), dict[HloInstruction, HloInstruction]()
            # Constants that are scalars are copied where they are read.
            inside = (i for i in {dot, *chain.inside} if i.opcode is not Opcode.CONSTANT)
            for i in sorted(inside, key=order.__getitem__):
                (copies[i],) = body.take_in(i, copies)
            last = chain.last
            (replaced[last],) = body.fusion([copies[last]], last.name, FusionKind.OUTPUT)
        replace(module, computation, replaced, editor)
        return bool(replaced)
