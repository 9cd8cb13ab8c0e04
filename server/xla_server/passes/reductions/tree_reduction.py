"""Long reductions split into parts that can be computed in parallel."""

import math

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, neutral_of
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.target.target import Target

_INDEXED = frozenset({Opcode.IOTA, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE})
"""Operations whose elements are functions of their index in each dimension."""


class TreeReduction(TargetRewritePass):
    """Reduces a few long rows, or few columns of many rows, in two steps.

    The first step computes partial results of runs of fixed length, the second combines them with
    the initial value. Processors add partial sums of f32 in f64: they are few, and each rounding
    would affect the whole sum. Only operations that allow any order are split. If elements depend
    on the index in one of several dimensions, the first step reduces rows: parts that begin within
    a row would need divisions for each index.
    """

    name = "tree-reduction"
    opcodes = (Opcode.REDUCE,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if len(i.operands) != 2:
            return None
        operand, initial = i.operands
        least = self.target.tuning.reductions.min_elements
        if operand.shape.element_count < least or 0 in operand.shape.dimensions:
            return None
        kind = i.shape.element_type
        if operand.shape.element_type is not kind or initial.shape.element_type is not kind:
            return None
        opcode = combiner(i.called[0])
        neutral = neutral_of(opcode, kind)
        if opcode is None or neutral is None:
            return None
        return _Cut(i, editor.constant(neutral, kind), editor, self.target).made()


class _Cut:
    """The split of one reduction."""

    def __init__(
        self, i: HloInstruction, neutral: HloInstruction, editor: Editor, target: Target
    ) -> None:
        self._target, self._tuning = target, target.tuning.reductions
        self._i, self._neutral, self._editor = i, neutral, editor
        (self._reducer,) = i.called
        self._operand, self._initial = i.operands

    def made(self) -> HloInstruction | None:
        sizes = self._operand.shape.dimensions
        reduced = sorted(self._i.attributes.dimensions)
        end = reduced[-1] + 1
        # The last group of adjacent reduced dimensions begins after one that is not reduced.
        begin = next(d for d in reversed(range(end)) if d - 1 not in reduced)
        length = math.prod(sizes[begin:end])
        inner = math.prod(sizes[end:])
        if end - begin < len(reduced):
            # Separate groups of dimensions are separate steps already.
            return self._by_groups(reduced, range(begin, end))
        outer = math.prod(sizes[:begin])
        parts = self._target.capability.reduction_parts(outer, length, inner, self._tuning)
        if parts == 1:
            return None
        run = [d for d in range(begin, end) if sizes[d] > 1]
        limit = self._target.tuning.fusions.max_instructions
        if len(run) > 1 and _is_indexed(self._operand, frozenset(run), limit):
            return self._by_groups(reduced, range(run[-1], end))
        flat = self._editor.reshape(self._operand, (outer, length, inner))
        total = self._joined(self._partial(flat, outer, length, inner, parts))
        return self._editor.reshape(total, self._i.shape.dimensions)

    def _by_groups(self, reduced: list[int], last: range) -> HloInstruction:
        partial = self._reduce(self._operand, self._neutral, tuple(last))
        return self._reduce(partial, self._initial, tuple(d for d in reduced if d not in last))

    def _partial(
        self, flat: HloInstruction, outer: int, length: int, inner: int, parts: int
    ) -> HloInstruction:
        """Partial results [outer, parts, inner]; a remainder is one more part."""
        each = length // parts
        whole = each * parts
        body = flat
        if whole != length:
            body = self._editor.sliced(flat, (0, 0, 0), (outer, whole, inner))
        body = self._editor.reshape(body, (outer, parts, each, inner))
        first = self._reduce(body, self._neutral, (2,))
        if whole == length:
            return first
        rest = self._editor.sliced(flat, (0, whole, 0), (outer, length, inner))
        remainder = self._editor.reshape(self._reduce(rest, self._neutral, (1,)), (outer, 1, inner))
        return self._editor.concatenate((first, remainder), 1)

    def _joined(self, partial: HloInstruction) -> HloInstruction:
        """Combine partial results [outer, parts, inner] with the initial value."""
        narrow, wide = ElementType.F32, ElementType.F64
        is_sum = combiner(self._reducer) is Opcode.ADD and partial.shape.element_type is narrow
        if not is_sum or not self._tuning.joins_in_f64:
            return self._reduce(partial, self._initial, (1,))
        adder = self._editor.binary_computation(Opcode.ADD, wide)
        operands = [self._editor.convert(each, wide) for each in (partial, self._initial)]
        total = self._editor.reduce(operands[0], operands[1], (1,), adder)
        return self._editor.convert(total, narrow)

    def _reduce(
        self, operand: HloInstruction, initial: HloInstruction, dimensions: tuple[int, ...]
    ) -> HloInstruction:
        return self._editor.reduce(operand, initial, dimensions, self._reducer)


def _is_indexed(operand: HloInstruction, run: frozenset[int], limit: int) -> bool:
    """Return whether elements of one loop depend on indices in some of `run`, not in all."""
    behind = [operand]
    seen = {operand}
    for i in behind:
        if i.opcode in _INDEXED:
            return True
        if i.opcode is Opcode.BROADCAST:
            if 0 < len(run.intersection(i.attributes.dimensions)) < len(run):
                return True
        elif i.opcode in ELEMENTWISE and len(behind) <= limit:
            # A scalar condition or bound is the same for every element.
            fresh = dict.fromkeys(o for o in i.operands if o.shape.dimensions and o not in seen)
            seen.update(fresh)
            behind += fresh
    return False
