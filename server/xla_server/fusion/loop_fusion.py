"""Loop fusion: producers are computed in the loops of their consumers.

Going from results to operands, each instruction is either computed where it is read, or stored.
Each stored instruction becomes the root of a fusion with everything it reads but does not load.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.dimension_numbers import PaddingDimension, Window
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.dense_updates import dense_updates
from xla_server.fusion.analysis.fusible import (
    COSTLY,
    ONE_TO_ONE,
    is_fusible,
    is_tiled,
    is_trivial,
    is_variadic_reduction,
    repeats,
)
from xla_server.fusion.analysis.index_maps import Evaluation, IndexMaps, copies
from xla_server.fusion.analysis.windows import has_free_order, is_short_window
from xla_server.fusion.fused_body import FusedBody
from xla_server.ir.analysis.index_maps import MAPPED
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import in_post_order, reached
from xla_server.passes.framework.editor import Editor, rearrange, rewrite, users
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS
from xla_server.target.target import Target

Set = frozenset[HloInstruction]


@dataclasses.dataclass(frozen=True)
class LoopFusion:
    """Fuses producers that a loop nest can compute without repeated evaluation.

    Reductions along rows are computed at the head of the loop over a row that reads them, so that
    softmax and normalisations pass over memory once.
    """

    target: Target
    name: str = "loop-fusion"

    def apply(self, module: HloModule) -> bool:
        """Fuse in the entry and in the computations of its loops and branches."""
        editor, changed = Editor(module), False
        for computation in module.sequential():
            changed |= _fuse(computation, self.target, editor)
            editor.insert_inner(module, computation)
        return changed


class _Plan:
    """The choice of kernels: those that compute each instruction, and the loops in them."""

    def __init__(self, computation: HloComputation, target: Target) -> None:
        self._tuning = target.tuning.fusions
        self._capability = target.capability
        self.readers = users(computation)
        self.fusible = {
            i for i in computation.instructions if is_fusible(i) or is_variadic_reduction(i)
        } | dense_updates(computation, self.readers, self._tuning.min_updated_share)
        # Instruction -> its users, with the operand number at each.
        self.uses: dict[HloInstruction, list[tuple[HloInstruction, int]]] = {}
        for i in computation.instructions:
            for number, operand in enumerate(i.operands):
                self.uses.setdefault(operand, []).append((i, number))
        self.kernels: dict[HloInstruction, Set] = {}
        self.contexts: dict[HloInstruction, Set] = {}
        self.is_repeated: dict[HloInstruction, bool] = {}
        self.sizes: dict[HloInstruction, int] = {}
        self.scalars: collections.Counter[HloInstruction] = collections.Counter()
        self.joined: collections.Counter[HloInstruction] = collections.Counter()
        self.maps = IndexMaps()
        self.evaluations: dict[HloInstruction, frozenset[Evaluation]] = {}
        self.windows: dict[HloInstruction, Window] = {}
        self.root = computation.root
        self._chains = _chains(computation, self._tuning.max_repeated_operations)
        for instruction in reversed(computation.instructions):
            checkpoint()
            self._decide(instruction)

    def is_stored(self, instruction: HloInstruction) -> bool:
        """Return whether an instruction is the root of its own fusion, or not fusible at all."""
        return self.kernels[instruction] == {instruction}

    def is_inlined(self, operand: HloInstruction) -> bool:
        """Return whether a fusible reader computes an operand instead of loading it."""
        return not self.is_stored(operand) or (operand in self.fusible and is_trivial(operand))

    def _decide(self, i: HloInstruction) -> None:
        readers = self.readers[i]
        if (
            i not in self.fusible
            or i is self.root
            # Inlined, its tests of indices would be those of all its readers' operands.
            or i.opcode is Opcode.DYNAMIC_UPDATE_SLICE
            or not readers
            or not all(map(self._may_fuse, readers))
            or not self._may_inline(i)
        ):
            self.kernels[i] = self.contexts[i] = frozenset([i])
            self.is_repeated[i] = False
            self.sizes[i] = self.sizes.get(i, 0) + 1
            if i in self.fusible:
                self.evaluations[i] = frozenset([self.maps.start(i, _dimensions(i))])
                self.scalars[i] += 1
            return
        self.kernels[i] = self._kernels_of(i)
        self.contexts[i] = self._contexts_of(i)
        self.is_repeated[i] = self._repeated(i)
        self.evaluations[i] = self._evaluations_of(i)
        self.scalars.update(each.kernel for each in self.evaluations[i])
        for kernel in self.kernels[i]:
            self.sizes[kernel] += 1
            if i.opcode is Opcode.CONCATENATE:
                self.joined[kernel] += len(i.operands)
            if i.opcode is Opcode.REDUCE_WINDOW:
                self.windows[kernel] = i.attributes.window

    def _may_fuse(self, reader: HloInstruction) -> bool:
        """Return whether a reader may compute its operands.

        A stored reshape is no kernel, and a tiled transpose reads its operand from memory.
        """
        is_alias = reader.opcode is Opcode.RESHAPE and self.is_stored(reader)
        return reader in self.fusible and not is_alias and not is_tiled(reader, self._capability)

    def _kernels_of(self, i: HloInstruction) -> Set:
        """Return the kernels of an instruction's readers."""
        return frozenset[HloInstruction]().union(*(self.kernels[r] for r in self.readers[i]))

    def _contexts_of(self, i: HloInstruction) -> Set:
        """Return the kernels and reductions in whose loops an instruction is read."""
        return frozenset[HloInstruction]().union(
            *({r} if r.opcode is Opcode.REDUCE else self.contexts[r] for r in self.readers[i])
        )

    def _evaluations_of(self, i: HloInstruction) -> frozenset[Evaluation]:
        """Return the evaluations of an inlined instruction by the kernels of its readers."""
        return frozenset(
            self.maps.read(reader, number, at)
            for reader, number in self.uses[i]
            for at in self.evaluations[reader]
        )

    def _are_few(self, i: HloInstruction, evaluations: frozenset[Evaluation]) -> bool:
        """Return whether a kernel may repeat an instruction for all these evaluations."""
        tuning = self._tuning
        if any(each.terms > tuning.max_index_terms for each in evaluations):
            return False
        added = collections.Counter(each.kernel for each in evaluations)
        if any(
            self.scalars[kernel] + more > tuning.max_scalars * self._parts(kernel)
            for kernel, more in added.items()
        ):
            return False
        if i.opcode in COSTLY:
            return len(evaluations) <= tuning.max_contexts
        is_tested = any(each.guard is not None for each in evaluations)
        most = tuning.max_tested_copies if is_tested else tuning.max_copies
        return i.opcode in MAPPED or copies(evaluations) <= most

    def _repeated(self, i: HloInstruction) -> bool:
        if i.opcode is Opcode.REDUCE:
            return False
        most = self._tuning.max_selected_operands
        return any(
            self.is_repeated[reader]
            or (repeats(reader, i, most) and not self._has_loops(reader, i))
            for reader in self.readers[i]
        )

    def _has_loops(self, reader: HloInstruction, operand: HloInstruction) -> bool:
        """Return whether a reader's operands are computed by loops of their own, with vectors."""
        if reader.opcode is not Opcode.CONCATENATE or not self.is_stored(reader):
            return False
        elements = math.prod(operand.shape.dimensions[reader.attributes.dimension :])
        return elements >= self._tuning.min_vector_elements

    def _parts(self, kernel: HloInstruction) -> int:
        """Return how many times the largest kernel size a fusion's loops may have."""
        if kernel.opcode is not Opcode.CONCATENATE:
            return 1
        return max(1, len(kernel.operands) // self._tuning.max_selected_operands)

    def _is_cut(self, i: HloInstruction, kernels: Set) -> bool:
        """Return whether a concatenate is computed by a loop for each of its operands.

        If the kernel's loops are not the concatenate's, each element of the kernel would test for,
        and compute, an element of each operand.
        """
        tuning = self._tuning
        if len(i.operands) <= tuning.max_selected_operands or self._are_index_vectors(i):
            return True
        (kernel, *others) = kernels
        return (
            not others
            and _dimensions(kernel) == i.shape.dimensions
            and kernel.opcode in ONE_TO_ONE
            and self._evaluations_of(i) == {self.maps.start(kernel, i.shape.dimensions)}
            and self.joined[kernel] + len(i.operands) <= tuning.max_joined_operands
            and len(i.operands) * self.sizes[kernel] <= tuning.max_instructions
        )

    def _are_index_vectors(self, i: HloInstruction) -> bool:
        """Return whether a concatenate joins gathers' index vectors, each index from an operand."""
        joined = i.attributes.dimension
        return all(part.shape.dimensions[joined] == 1 for part in i.operands) and all(
            reader.opcode is Opcode.GATHER
            and number == 1
            and reader.attributes.dimension_numbers.index_vector_dim == joined
            for reader, number in self.uses[i]
        )

    def _is_read_in_order(self, i: HloInstruction) -> bool:
        """Return whether a transpose costs no more inside its readers than by itself.

        A large one costs more if it works by tiles or runs, or if its readers' innermost loops are
        others or differ.
        """
        if i.shape.element_count < self._capability.MIN_TILED_TRANSPOSE:
            return True
        last = i.shape.rank - 1
        if i.attributes.permutation[last] == last or is_tiled(i, self._capability):
            return False
        reductions = [c for c in self._contexts_of(i) if c.opcode is Opcode.REDUCE]
        if any(c.operands[0].shape.rank - 1 not in c.attributes.dimensions for c in reductions):
            return False
        return not self._is_read_by(i, {Opcode.RESHAPE, Opcode.CONCATENATE})

    def _is_read_by(self, i: HloInstruction, opcodes: Collection[Opcode]) -> bool:
        """Return whether one of these opcodes reads an instruction, directly or transitively.

        Readers in other kernels do not count, nor do those after a reduction.
        """

        def readers_of(part: HloInstruction) -> list[HloInstruction]:
            """Return the readers of a part that may be in the same kernel."""
            if part is not i and self.is_stored(part):
                return []
            fusible = [each for each in self.readers[part] if each in self.fusible]
            return [each for each in fusible if each.opcode is not Opcode.REDUCE]

        return any(part.opcode in opcodes for part in reached(readers_of(i), readers_of))

    def _is_reduced(self, i: HloInstruction) -> bool:
        """Return whether an instruction is read in the loop of a reduction."""
        return any(context.opcode is Opcode.REDUCE for context in self._contexts_of(i))

    def _is_gathered(self, i: HloInstruction) -> bool:
        """Return whether gathers and dynamic slices read most elements of an instruction."""
        moving = (Opcode.GATHER, Opcode.DYNAMIC_SLICE)
        reads = [r for r, number in self.uses[i] if number == 0 and r.opcode in moving]
        read = sum(reader.shape.element_count for reader in reads)
        return i.shape.element_count <= self._tuning.max_stored_per_read * read

    def _tests_each_element(self, i: HloInstruction) -> bool:
        """Return whether readers of a large pad or concatenate test the index of each element.

        The loop of a reduction, and one at computed indices, is not split at the parts' boundaries:
        a test keeps it scalar, unless the test is constant for many consecutive elements of the
        innermost loop, or in an unrolled loop.
        """
        if i.shape.element_count <= self._tuning.max_tested_elements:
            return False
        if i.opcode is Opcode.CONCATENATE:
            last = i.attributes.dimension
        else:
            edges = enumerate(i.attributes.config.dimensions)
            last = max((d for d, edge in edges if edge != PaddingDimension()), default=-1)
        if last < 0 or i.shape.dimensions[last] <= MAX_UNROLLED_ITERATIONS:
            return False
        reductions = (c for c in self._contexts_of(i) if c.opcode is Opcode.REDUCE)
        whole = math.prod(i.shape.dimensions[last + 1 :])
        elements = min([whole, *map(_innermost_elements, reductions)])
        return self._is_read_by(i, {Opcode.RESHAPE}) or elements < self._tuning.min_vector_elements

    def _may_inline(self, i: HloInstruction) -> bool:
        if is_trivial(i):
            return True
        tuning, kernels = self._tuning, self._kernels_of(i)
        most = tuning.max_instructions
        if any(self.sizes[kernel] >= most * self._parts(kernel) for kernel in kernels):
            return False
        if i.opcode is Opcode.CONCATENATE and not self._is_cut(i, kernels):
            return False
        if not self._are_few(i, self._evaluations_of(i)):
            return False
        if (
            i.opcode in (Opcode.CONCATENATE, Opcode.PAD)
            and (self._is_gathered(i) or self._is_reduced(i))
            and self._tests_each_element(i)
        ):
            return False
        if i.opcode is Opcode.REDUCE:
            if self._capability.FINISHES_REDUCTIONS and self._is_used_once(i, kernels):
                return True
            return len(kernels) == 1 and self._is_row(i, next(iter(kernels)))
        if i.opcode is Opcode.REDUCE_WINDOW:
            return self._is_finished(i, kernels)
        if i.opcode is Opcode.TRANSPOSE and not self._is_read_in_order(i):
            return False
        if i.opcode in COSTLY:
            return (
                len(kernels) == 1
                and not self._repeated(i)
                and len(self._contexts_of(i)) <= tuning.max_contexts
            )
        repeated = (len(kernels) - 1) * len(self._chains[i])
        return len(kernels) <= tuning.max_fusions and repeated <= tuning.max_repeated_operations

    def _is_finished(self, i: HloInstruction, kernels: Set) -> bool:
        """Return whether a window's results are only used elementwise, at the kernel's index.

        Long windows of several forms are not computed in one kernel.
        """
        window = i.attributes.window
        is_short = is_short_window([d.size for d in window.dimensions], self._capability)
        others = {self.windows.get(kernel, window) for kernel in kernels}
        is_one = others == {window} and (is_short or has_free_order(i))
        return is_one and self._is_used_once(i, kernels)

    def _is_used_once(self, i: HloInstruction, kernels: Set) -> bool:
        """Return whether results are only used elementwise, at the index of one kernel."""
        return (
            len(kernels) == 1
            and self._contexts_of(i) == kernels
            and not self._repeated(i)
            and len(self._evaluations_of(i)) == 1
            and all(reader.opcode in ONE_TO_ONE for reader in self.readers[i])
            and _dimensions(next(iter(kernels))) == i.shape.dimensions
        )

    def _is_row(self, i: HloInstruction, kernel: HloInstruction) -> bool:
        """Return whether a reduction's result is constant along a row of the fusion's loop."""
        source = i.operands[0].shape.dimensions
        rank = i.shape.rank
        if sorted(i.attributes.dimensions) != list(range(rank, len(source))):
            return False
        elements = i.operands[0].shape.element_count
        is_large = elements > self._tuning.max_unshared_elements
        if is_large and i.shape.element_count < self._tuning.min_rows:
            return False
        if _dimensions(kernel) not in (source, i.shape.dimensions):
            return False
        return self._are_rows(i, kernel)

    def _are_rows(self, i: HloInstruction, kernel: HloInstruction) -> bool:
        """Return whether all readers, transitively, take one value of `i` per row."""

        def following(part: HloInstruction) -> Sequence[HloInstruction]:
            is_last = part.opcode is Opcode.BROADCAST or part is kernel
            return () if is_last else self.readers[part]

        readers = reached(self.readers[i], following)
        return all(self._reads_rows(i, reader, kernel) for reader in readers)

    def _reads_rows(
        self, i: HloInstruction, reader: HloInstruction, kernel: HloInstruction
    ) -> bool:
        """Return whether a reader of `i`, or of values of its shape, takes one for each row."""
        if reader.opcode is Opcode.BROADCAST:
            leading, source = tuple(range(i.shape.rank)), i.operands[0].shape.dimensions
            return (
                reader.shape.dimensions == source
                and reader.attributes.dimensions == leading
                and (_dimensions(kernel) == source or self._ends_in_rows(reader, i.shape.rank))
            )
        return reader.opcode in ONE_TO_ONE and reader.shape.dimensions == i.shape.dimensions

    def _ends_in_rows(self, start: HloInstruction, rank: int) -> bool:
        """Return whether all values computed from broadcast rows are reduced along the rows."""
        reduced = list(range(rank, start.shape.rank))
        computed = reached(
            self.readers[start], lambda i: () if i.opcode is Opcode.REDUCE else self.readers[i]
        )
        return all(
            sorted(i.attributes.dimensions) == reduced
            if i.opcode is Opcode.REDUCE
            else i.opcode in ONE_TO_ONE
            for i in computed
        )


def _dimensions(kernel: HloInstruction) -> tuple[int, ...]:
    """Return the dimensions of a kernel's result, or of each of its results."""
    shape = kernel.shape
    return shape.tuple_shapes[0].dimensions if shape.is_tuple else shape.dimensions


def _innermost_elements(reduction: HloInstruction) -> int:
    """Return the elements of the trailing dimensions that are all reduced, or all kept."""
    sizes = reduction.operands[0].shape.dimensions
    are_reduced = [d in reduction.attributes.dimensions for d in range(len(sizes))]
    runs = itertools.takewhile(
        lambda d: are_reduced[d] == are_reduced[-1], reversed(range(len(sizes)))
    )
    return math.prod(sizes[d] for d in runs)


def _chains(computation: HloComputation, max_operations: int) -> dict[HloInstruction, Set]:
    """Return the operations that compute an element of each instruction from loads, if cheap."""
    found: dict[HloInstruction, Set] = {}
    for i in computation.instructions:
        chain: Set = frozenset()
        if i.opcode not in COSTLY and i.opcode is not Opcode.REDUCE and is_fusible(i):
            chain = frozenset([i]) if i.opcode in ONE_TO_ONE else chain
            for operand in i.operands:
                # For many elements of the result, few of a small operand are computed.
                is_small = 2 * operand.shape.element_count < i.shape.element_count
                if not is_small and len(chain) <= max_operations:
                    chain |= found[operand]
        # A longer chain only has to exceed the limit.
        found[i] = frozenset(itertools.islice(chain, max_operations + 1))
    return found


def _fuse(computation: HloComputation, target: Target, editor: Editor) -> bool:
    plan = _Plan(computation, target)

    def fused(root: HloInstruction) -> HloInstruction | None:
        if root not in plan.fusible or not plan.is_stored(root) or root.opcode is Opcode.RESHAPE:
            return None

        def is_inside(i: HloInstruction) -> bool:
            return i is root or (i in plan.kernels and plan.is_inlined(i))

        body, copies = FusedBody(editor), dict[HloInstruction, HloInstruction]()
        for i in in_post_order([root], lambda i: i.operands if is_inside(i) else ()):
            if is_inside(i):
                (copies[i],) = body.fuse(i, copies)
            else:
                copies[i] = body.parameter(i)
        if len(body.instructions) < 2:
            editor.drain()
            return None
        kind = FusionKind.INPUT if root.opcode is Opcode.REDUCE else FusionKind.LOOP
        (fusion,) = body.fusion([copies[root]], root.name, kind)
        return fusion

    changed = rewrite(computation, fused, editor)
    rearrange(computation)
    return changed
