"""Output fusion: elementwise epilogues of dots and convolutions."""

import dataclasses
from collections.abc import Collection

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import ONE_TO_ONE, continues_product
from xla_server.fusion.analysis.levels import levels_from_parameters
from xla_server.fusion.analysis.row_maps import maps_rows
from xla_server.fusion.fused_body import FusedBody, replace
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, drop_uncalled, users
from xla_server.target.target import Target

_REDUCTIONS = (Opcode.REDUCE, Opcode.REDUCE_WINDOW)


@dataclasses.dataclass(frozen=True)
class OutputFusion:
    """Fuses a product with a loop that reads it; for other readers it is a second result.

    The loop must compute each element from the product's element of the same index; the epilogue of
    a dot may also take values that are constant along a row of the product, as softmax does. It is
    run over each block of the product just after that was computed, from the cache.
    """

    target: Target
    name: str = "output-fusion"
    producers: Collection[Opcode] = (Opcode.DOT, Opcode.CONVOLUTION)

    def apply(self, module: HloModule) -> bool:
        """Fuse in the entry and in the computations of its loops and branches."""
        editor = Editor(module)
        changed = [self._fuse(module, computation, editor) for computation in module.sequential()]
        # The loops that were fused.
        drop_uncalled(module)
        return any(changed)

    def _fuse(self, module: HloModule, computation: HloComputation, editor: Editor) -> bool:
        readers, levels = users(computation), levels_from_parameters(computation)
        replaced: dict[HloInstruction, HloInstruction] = {}

        def is_fused(producer: HloInstruction, i: HloInstruction) -> bool:
            if producer in replaced or not self._is_producer(producer):
                return False
            others = [part for part in i.operands if part is not producer]
            is_only = readers[producer] == [i] and producer is not computation.root
            # Otherwise the epilogue's other operands must be computed before the product, so that
            # no cycle can arise.
            return self._is_epilogue(i, producer) and (
                is_only or all(levels[part] < levels[producer] for part in others)
            )

        for i in computation.instructions:
            producer = next((part for part in i.operands if is_fused(part, i)), None)
            if producer is None:
                continue
            body = FusedBody(editor)
            (product,) = body.fuse(producer, {})
            results = body.fuse(i, {producer: product})
            if readers[producer] != [i] or producer is computation.root:
                results.append(product)
            fused = body.fusion(results, i.name, FusionKind.OUTPUT)
            replaced.update(zip((i, producer), fused, strict=False))
        replace(module, computation, replaced, editor)
        return bool(replaced)

    def _is_producer(self, i: HloInstruction) -> bool:
        if not i.shape.is_array or not i.shape.element_count or i.control_predecessors:
            return False
        if i.opcode is Opcode.FUSION and i.attributes.kind is FusionKind.OUTPUT:
            dots = (part for part in i.called[0].instructions if part.opcode is Opcode.DOT)
            i = next(dots, i)
        if i.opcode not in self.producers:
            return False
        return i.opcode is Opcode.CONVOLUTION or continues_product(i, self.target.capability)

    def _is_epilogue(self, i: HloInstruction, producer: HloInstruction) -> bool:
        """Return whether an instruction can be an epilogue of the product."""
        is_alike = i.shape.is_array and i.shape.element_count == producer.shape.element_count
        if not is_alike or i.control_predecessors:
            return False
        if i.opcode is not Opcode.FUSION:
            shapes = {part.shape.dimensions for part in i.operands}
            return i.opcode in ONE_TO_ONE and shapes == {i.shape.dimensions}
        (called,) = i.called
        if i.attributes.kind is not FusionKind.LOOP:
            return False
        start = called.parameters[i.operands.index(producer)]
        if not self.target.capability.EPILOGUES_REDUCE_ROWS:
            is_free = not any(part.opcode in _REDUCTIONS for part in called.instructions)
            return is_free and maps_rows(called, start, None)
        columns = producer.shape.dimensions[-1] if producer.opcode is Opcode.DOT else None
        most = self.target.tuning.fusions.max_reduced_elements
        return maps_rows(called, start, columns) and not _reduces_others(called, start, most)


def _reduces_others(called: HloComputation, start: HloInstruction, max_reduced: int) -> bool:
    """Return whether a loop reduces a large array other than the product to one element.

    Each call of the product's kernel would repeat that.
    """
    behind = {start}
    for i in called.instructions:
        if not behind.isdisjoint(i.operands):
            behind.add(i)
        elif i.opcode is Opcode.REDUCE:
            is_large = i.operands[0].shape.element_count > max_reduced
            if is_large and i.shape.element_count == 1:
                return True
    return False
