"""Long reductions cut into parts that can be computed side by side."""

from typing import Any

import ml_dtypes
import numpy as np

from xla_contract.ops.concatenate import ConcatenateAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, count
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.target.pass_tuning import Reductions

FREE_ORDER = frozenset(
    {
        Opcode.ADD,
        Opcode.AND,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.MULTIPLY,
        Opcode.OR,
    }
)
"""Operations whose operands may be combined in any order."""


class TreeReduction(TargetRewritePass):
    """Reduces a few long rows, or few columns of many rows, in two steps.

    The first gives partial results of fixed length, the second combines them with the initial
    value, sums of f32 in f64: they are few, and each rounding would be one of the whole sum. Only
    operations that may be combined in any order are cut.
    """

    name = "tree-reduction"
    opcodes = (Opcode.REDUCE,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        tuning = self.target.tuning.reductions
        if len(i.operands) != 2:
            return None
        operand, initial = i.operands
        if operand.shape.element_count < tuning.min_elements or 0 in operand.shape.dimensions:
            return None
        kind = i.shape.element_type
        if operand.shape.element_type is not kind or initial.shape.element_type is not kind:
            return None
        opcode = combiner(i.called[0])
        neutral = neutral_of(opcode, kind)
        if opcode is None or neutral is None:
            return None
        return _Cut(i, editor.constant(neutral, kind), editor, tuning).made()


def neutral_of(opcode: Opcode | None, kind: ElementType) -> Any:
    """The value that an operation combines with any other into that other, or None."""
    if opcode not in FREE_ORDER or kind.bit_width < 8:
        return None
    if kind.is_complex:
        return complex(-0.0, -0.0) if opcode is Opcode.ADD else None
    if opcode is Opcode.ADD:
        return -0.0 if kind.is_floating else 0
    if opcode is Opcode.MULTIPLY:
        return 1
    if opcode is Opcode.OR:
        return 0
    is_minimum = opcode is Opcode.MINIMUM
    if kind is ElementType.PRED:
        return opcode is not Opcode.MAXIMUM
    if opcode is Opcode.AND:
        return np.invert(np.zeros((), kind.dtype))
    if kind.is_integer:
        info = ml_dtypes.iinfo(kind.dtype)  # type: ignore[no-untyped-call]
        return info.max if is_minimum else info.min
    if kind in (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64):
        return np.inf if is_minimum else -np.inf
    return None


class _Cut:
    """One reduction being cut in two."""

    def __init__(
        self,
        i: HloInstruction,
        neutral: HloInstruction,
        editor: Editor,
        tuning: Reductions,
    ) -> None:
        self._tuning = tuning
        self._i, self._neutral, self._editor = i, neutral, editor
        (self._reducer,) = i.called
        self._operand, self._initial = i.operands

    def made(self) -> HloInstruction | None:
        sizes = self._operand.shape.dimensions
        reduced = sorted(self._i.attributes.dimensions)
        begin, end = _last_run(reduced)
        length = count(sizes[begin:end])
        inner = count(sizes[end:])
        if end - begin < len(reduced):
            # Separate groups of dimensions are separate steps already.
            return self._by_groups(reduced, range(begin, end))
        is_row = inner == 1
        outer = count(sizes[:begin])
        if outer >= self._tuning.min_rows:
            return None
        has_few_columns = is_row or outer * inner < self._tuning.min_columns
        if length >= self._tuning.min_length and has_few_columns:
            parts = self._parts(length)
        else:
            parts = 1 if is_row else self._blocks(outer, length, inner)
        if parts == 1:
            return None
        flat = self._editor.reshape(self._operand, (outer, length, inner))
        partial = self._partial(flat, outer, length, inner, parts)
        total = self._joined(partial)
        return self._editor.reshape(total, self._i.shape.dimensions)

    def _by_groups(self, reduced: list[int], last: range) -> HloInstruction:
        partial = self._reduce(self._operand, self._neutral, tuple(last))
        return self._reduce(partial, self._initial, tuple(d for d in reduced if d not in last))

    def _parts(self, length: int) -> int:
        """Return the number of parts, which divides the length if possible."""
        parts = self._tuning.parts
        fitting = [n for n in range(self._tuning.min_parts, 4 * parts + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - parts), default=parts)

    def _blocks(self, outer: int, length: int, inner: int) -> int:
        """Return the number of blocks that rows of wide columns are cut into, 1 for none.

        It is a divisor of their number.
        """
        tuning = self._tuning
        columns = max(outer, inner // tuning.min_columns, 1)
        wanted = min(length // tuning.min_block_rows, tuning.parts // columns)
        elements = length * min(inner, tuning.min_columns)
        if elements <= tuning.max_block_elements or wanted < tuning.min_blocks:
            return 1
        fitting = [n for n in range(tuning.min_blocks, 2 * wanted + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - wanted), default=1)

    def _partial(
        self, flat: HloInstruction, outer: int, length: int, inner: int, parts: int
    ) -> HloInstruction:
        """[outer, parts, inner], or one more part for what is left over."""
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
        tail = self._editor.reshape(self._reduce(rest, self._neutral, (1,)), (outer, 1, inner))
        return self._editor.add(Opcode.CONCATENATE, (first, tail), ConcatenateAttributes(1))

    def _joined(self, partial: HloInstruction) -> HloInstruction:
        """Combine partial results [outer, parts, inner] with the initial value."""
        narrow, wide = ElementType.F32, ElementType.F64
        if combiner(self._reducer) is not Opcode.ADD or partial.shape.element_type is not narrow:
            return self._reduce(partial, self._initial, (1,))
        adder = self._editor.binary_computation(Opcode.ADD, wide)
        operands = [self._editor.convert(each, wide) for each in (partial, self._initial)]
        total = self._editor.reduce(operands[0], operands[1], (1,), adder)
        return self._editor.convert(total, narrow)

    def _reduce(
        self, operand: HloInstruction, initial: HloInstruction, dimensions: tuple[int, ...]
    ) -> HloInstruction:
        return self._editor.reduce(operand, initial, dimensions, self._reducer)


def _last_run(reduced: list[int]) -> tuple[int, int]:
    """The last group of neighbouring dimensions, as the first and one past the last."""
    end = reduced[-1] + 1
    begin = end - 1
    while begin - 1 in reduced:
        begin -= 1
    return begin, end
