"""Recomputation guard: splits fusions whose loop nest would evaluate an instruction too often."""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.evaluation_cost import COUNTED
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.fusion.fused_body import FusedBody, replace
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import reached
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, drop_uncalled, users
from xla_server.passes.simplify.cse import EqualComputations


class CostModel(Protocol):
    """Interface to count the evaluations of a fusion's loop nest, as `codegen` is a layer above."""

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        """Return the instructions inside a loop fusion that are cheaper to store before it.

        Returns none if the fusion is best as it is.
        """


_LOOPS = frozenset({FusionKind.LOOP, FusionKind.INPUT})


@dataclasses.dataclass(frozen=True)
class RecomputationGuard:
    """Stores values that a fusion evaluates repeatedly, if the cost model says that this is faster.

    The other passes decide by what fits into one loop nest. This one asks how often that nest
    evaluates each instruction: once for each row, each reader at another index, each chunk of
    iterations. An instruction that is cheaper to store becomes a kernel before the fusion.
    """

    cost_model: CostModel
    name: str = "recomputation-guard"

    def apply(self, module: HloModule) -> bool:
        """Split fusions of the entry and of the computations of its loops and branches."""
        changed, editor = False, Editor(module)
        plans = _Plans(self.cost_model, module)
        for computation in module.sequential():
            changed |= self._split(module, computation, editor, plans)
        if changed:
            drop_uncalled(module)
        return changed

    def _split(
        self, module: HloModule, computation: HloComputation, editor: Editor, plans: "_Plans"
    ) -> bool:
        stored = {
            i: found
            for i in computation.instructions
            if i.opcode is Opcode.FUSION and i.attributes.kind in _LOOPS and may_repeat(i.called[0])
            if (found := plans.stored(i))
        }
        if not stored:
            return False
        readers = users(computation)
        replaced: dict[HloInstruction, HloInstruction] = {}
        for fusion, inner in stored.items():
            results = _Split(fusion, inner, editor).results()
            if fusion.called[0].root.opcode is not Opcode.TUPLE:
                (replaced[fusion],) = results
                continue
            for reader in readers[fusion]:
                if reader.opcode is Opcode.GET_TUPLE_ELEMENT:
                    replaced[reader] = results[reader.attributes.index]
            replaced[fusion] = editor.add(Opcode.TUPLE, results)
        # A fusion may read the replacement of another one.
        replace(module, computation, replaced, editor)
        return True


class _Plans:
    """Stored instructions of fusions; the cost model is asked once for equal fusions."""

    def __init__(self, cost_model: CostModel, module: HloModule) -> None:
        self._cost_model, self._equal = cost_model, EqualComputations.of_elements(module)
        self._known: dict[object, tuple[int, ...]] = {}

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        """Return the instructions inside a fusion that are stored before it."""
        key, inside = self._equal.function(fusion), fusion.called[0].instructions
        numbers = self._known.get(key)
        if key is None or numbers is None:
            found = self._cost_model.stored(fusion)
            numbers = tuple(n for n, i in enumerate(inside) if i in found)
            self._known[key] = numbers
        return frozenset(inside[n] for n in numbers)


def may_repeat(called: HloComputation) -> bool:
    """Return whether a loop nest could evaluate an instruction of a fusion more than once.

    It could not if all uses of computed values are elementwise, as each element is then needed at
    one index.
    """
    computed: set[HloInstruction] = set()
    for i in called.instructions:
        is_behind = not computed.isdisjoint(i.operands)
        if is_behind and i.opcode not in ELEMENTWISE and i.opcode is not Opcode.TUPLE:
            return True
        if is_behind or i.opcode in COUNTED:
            computed.add(i)
    return False


class _Split:
    """The kernels of one fusion that store given instructions of it, and its results."""

    def __init__(
        self, fusion: HloInstruction, stored: frozenset[HloInstruction], editor: Editor
    ) -> None:
        (self._called,) = fusion.called
        self._stored, self._editor = stored, editor
        # Parameter or stored instruction -> the instruction outside that has its value.
        self._outside = dict(zip(self._called.parameters, fusion.operands, strict=True))

    def results(self) -> list[HloInstruction]:
        """Add the kernels and return the results of the fusion in their order."""
        wanted = self._called.results
        for i in self._called.instructions:
            if i in self._stored:
                (self._outside[i],) = self._kernel([i])
        left = [i for i in dict.fromkeys(wanted) if i not in self._outside]
        found: Mapping[HloInstruction, HloInstruction] = self._outside
        if left:
            found = {**self._outside, **dict(zip(left, self._kernel(left), strict=True))}
        return [found[i] for i in wanted]

    def _kernel(self, results: list[HloInstruction]) -> list[HloInstruction]:
        """Add a kernel that computes some instructions from parameters and stored ones."""
        found = set(reached(results, lambda i: () if i in self._outside else i.operands))
        inside = [i for i in self._called.instructions if i in found and not is_scalar_constant(i)]
        computed = [i for i in inside if i not in self._outside]
        if len(computed) == 1:
            # A single instruction needs no fusion.
            parts = computed[0].operands
            given = [self._outside.get(part) or self._editor.copy(part, ()) for part in parts]
            return [self._editor.copy(computed[0], given)]
        body = FusedBody(self._editor)
        copies = {i: body.parameter(self._outside[i]) for i in inside if i in self._outside}
        for i in computed:
            (copies[i],) = body.fuse(i, copies)
        is_input = len(results) == 1 and results[0].opcode is Opcode.REDUCE
        kind = FusionKind.INPUT if is_input else FusionKind.LOOP
        return body.fusion([copies[i] for i in results], results[-1].name, kind)
