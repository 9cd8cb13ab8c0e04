"""Dots of many small matrices or short rows, as reductions in one loop nest."""

import dataclasses
import itertools
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import ProductSizes, Roles, product_sizes, roles_of
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS
from xla_server.target.target import Target


class SmallDotExpander(TargetRewritePass):
    """Writes a dot of many small matrices, or of many short rows, as reduce(multiply(lhs, rhs)).

    One loop nest computes them, together with the transposes, operands and users that fuse with
    it. Sums of types narrower than 32 bits are computed in f32, s32 or u32, as routines do.
    """

    name = "small-dot-expander"
    opcodes = (Opcode.DOT,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        kind = i.shape.element_type
        if not i.shape.element_count or kind is ElementType.PRED:
            return None
        numbers = i.attributes.dimension_numbers
        dot = _Dot(i, self.target, *roles_of(numbers, *(o.shape.rank for o in i.operands)))
        if not dot.is_small_batch and not dot.has_short_rows:
            return None
        is_inner = not dot.is_small_batch or dot.last_of_rhs not in dot.right.free
        return editor.convert(dot.expanded(is_inner, _accumulator(kind), editor), kind)


def _accumulator(kind: ElementType) -> ElementType:
    if kind.bit_width >= 32:
        return kind
    if kind.is_floating:
        return ElementType.F32
    return ElementType.S32 if kind.is_signed_integer else ElementType.U32


@dataclasses.dataclass(frozen=True, slots=True)
class _Dot:
    """A dot, with the dimensions of its operands by role."""

    i: HloInstruction
    target: Target
    left: Roles
    right: Roles

    @property
    def _sizes(self) -> ProductSizes:
        lhs, rhs = (operand.shape.dimensions for operand in self.i.operands)
        return product_sizes(lhs, rhs, self.i.attributes.dimension_numbers)

    @property
    def last_of_rhs(self) -> int:
        """The minor dimension of the right operand, whose elements are contiguous."""
        sizes = self.i.operands[1].shape.dimensions
        return max((d for d, size in enumerate(sizes) if size > 1), default=-1)

    @property
    def is_small_batch(self) -> bool:
        """Return whether the dot has several products of small matrices."""
        batch, rows, columns, depth = self._sizes
        most = self.target.tuning.small_dots.max_products
        return batch > 1 and depth > 1 and rows * columns * depth <= most

    @property
    def has_short_rows(self) -> bool:
        """Return whether the dot has many rows, or contiguous columns, of few short sums each."""
        batch, rows, columns, depth = self._sizes
        many, few = rows, columns
        if columns > rows:
            if self.last_of_rhs in self.right.free:
                return False
            many, few = columns, rows
        tuning = self.target.tuning.small_dots
        is_unrolled = 1 < depth <= MAX_UNROLLED_ITERATIONS
        is_short = is_unrolled and few * depth <= tuning.max_row_products
        return batch == 1 and few > 1 and many >= tuning.min_rows and is_short

    def expanded(self, is_inner: bool, kind: ElementType, editor: Editor) -> HloInstruction:
        """The sum of products in this type: contracted dimensions last or before the columns."""
        (lhs, rhs), result = self.i.operands, self.i.shape
        depths = [lhs.shape.dimensions[d] for d in self.left.contracting]
        batch = len(self.left.batch)
        middle = batch + len(self.left.free)
        first = result.rank if is_inner else middle
        sizes = [*result.dimensions[:first], *depths, *result.dimensions[first:]]
        added = range(first, first + len(depths))
        kept = [d for d in range(len(sizes)) if d not in added]
        rows, columns = range(middle), (*kept[:batch], *kept[middle:])
        factors = [
            _spread(editor.convert(side, kind), own, (*dimensions, *added), sizes, editor)
            for side, own, dimensions in ((lhs, self.left, rows), (rhs, self.right, columns))
        ]
        product = editor.add(Opcode.MULTIPLY, factors)
        adder = editor.binary_computation(Opcode.ADD, kind)
        return editor.reduce(product, editor.constant(0, kind), list(added), adder)


def _spread(
    side: HloInstruction,
    own: Roles,
    dimensions: Sequence[int],
    sizes: Sequence[int],
    editor: Editor,
) -> HloInstruction:
    """Broadcast an operand to `sizes`; its dimensions, by role, go to these positions."""
    order = sorted(zip(dimensions, itertools.chain(*own), strict=True))
    moved = editor.transpose(side, [d for _, d in order])
    return editor.broadcast(moved, [dimension for dimension, _ in order], sizes)
