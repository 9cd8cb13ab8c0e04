"""Canonical forms of dots, for which fast kernels exist."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import roles_of
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.dots.dot_types import (
    has_packing_kernel,
    is_in_order,
    is_matrix_product,
    is_stored_as_matrices,
)
from xla_server.passes.canonicalize.dots.thin_dots import thin_dot
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.target.capability import Capability
from xla_server.target.pass_tuning import ThinDots
from xla_server.target.target import Target

_STORED = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.CONSTANT,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.DOT,
        Opcode.CONVOLUTION,
        Opcode.DYNAMIC_UPDATE_SLICE,
    }
)


class DotCanonicaliser(TargetRewritePass):
    """Makes every dot a product of matrices, or of one leading batch of them.

    BLAS takes either operand transposed, so an operand is transposed in memory only if its free or
    contracted dimensions are not adjacent. Products for which BLAS is slow become multiplications,
    and reductions if anything is contracted: outer products, products of vectors and of a matrix
    with a vector.
    """

    name = "dot-canonicaliser"
    opcodes = (Opcode.DOT,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        return _canonical(i, editor, self.target)


@dataclasses.dataclass(frozen=True)
class _Side:
    """One operand: its dimensions by their role in the product."""

    operand: HloInstruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]

    def sizes(self, dimensions: Sequence[int]) -> list[int]:
        return [self.operand.shape.dimensions[d] for d in dimensions]

    @property
    def arrangements(self) -> list[tuple[int, ...]]:
        """The orders of dimensions that need no transpose: free ones first, or contracted ones."""
        return [
            (*self.batch, *self.free, *self.contracted),
            (*self.batch, *self.contracted, *self.free),
        ]

    @property
    def needs_no_copy(self) -> bool:
        """True if an arrangement is the operand's memory order, ignoring dimensions of size 1."""
        return is_stored_as_matrices(self.operand, self.batch, self.free, self.contracted)

    @property
    def is_read_in_order(self) -> bool:
        """True if sums over contracted dimensions read rows, or the columns of one matrix."""
        rows, columns = self.arrangements
        is_batch = any(size != 1 for size in self.sizes(self.batch))
        return is_in_order(self.operand, rows) or (
            not is_batch and is_in_order(self.operand, columns)
        )

    @property
    def _has_free_runs(self) -> bool:
        """True if free elements are contiguous, in a type whose kernels take either form."""
        shape = self.operand.shape
        has_runs = self.free[-1:] == (shape.rank - 1,) and shape.dimensions[-1] > 1
        return has_runs and not shape.element_type.is_integer

    def matrix(self, editor: Editor, capability: Capability) -> tuple[HloInstruction, bool]:
        """The operand as [batch, free, contracted], or with the last two exchanged (True)."""
        batch, free, contracted = (
            math.prod(self.sizes(part)) for part in (self.batch, self.free, self.contracted)
        )
        first, second = self.arrangements
        leading = [batch] if batch > 1 else []
        if not is_in_order(self.operand, first):
            is_exchanged = is_in_order(self.operand, second)
            if is_exchanged or (capability.MOVES_RUNS and self._has_free_runs):
                moved = self.operand if is_exchanged else editor.transpose(self.operand, second)
                return editor.reshape(moved, [*leading, contracted, free]), True
            moved = editor.transpose(self.operand, first)
        else:
            moved = self.operand
        return editor.reshape(moved, [*leading, free, contracted]), False


def _canonical(i: HloInstruction, editor: Editor, target: Target) -> HloInstruction | None:
    if 0 in (*i.shape.dimensions, *i.operands[0].shape.dimensions):
        return None
    left, right = _sides(i)
    rows, columns = math.prod(left.sizes(left.free)), math.prod(right.sizes(right.free))
    depth = math.prod(left.sizes(left.contracted))
    operand_types = {operand.shape.element_type for operand in i.operands}
    capability, tuning = target.capability, target.tuning.thin_dots
    if operand_types == {i.shape.element_type} and (
        depth == 1 or i.shape.element_type in capability.BLAS_TYPES
    ):
        if depth == 1:
            return _outer(i, left, right, editor)
        matrix, vector = (right, left) if rows == 1 else (left, right)
        if rows == 1 or columns == 1:
            made = i if _is_canonical(i) else _matrices(i, left, right, editor, capability)
            is_thin = _has_thin_kernel(made, tuning) and not _has_few_rows(matrix, tuning)
            if is_thin and _is_large_and_stored(matrix.operand, tuning.min_stored_bytes):
                return made
            if matrix.is_read_in_order or not (matrix.needs_no_copy and is_thin):
                return _vector(i, matrix, vector, editor)
    if capability.is_narrow_product(operand_types, i.shape.element_type):
        return _widened(i, editor, target)
    is_packed = has_packing_kernel(i, capability)
    if _is_canonical(i) and (is_packed or not _reads_both_with_strides(i)):
        return None
    return _matrices(i, left, right, editor, capability)


def _is_large_and_stored(i: HloInstruction, min_bytes: int) -> bool:
    """Return whether a matrix is stored in any case, and too large for a reduction to be faster."""
    while i.opcode is Opcode.RESHAPE:
        (i,) = i.operands
    size = i.shape.element_count * i.shape.element_type.byte_width
    return i.opcode in _STORED and size >= min_bytes


def _has_few_rows(matrix: _Side, tuning: ThinDots) -> bool:
    """Return whether a product with a vector has too few sums: reductions are split further."""
    batch, rows, depth = (
        math.prod(matrix.sizes(part)) for part in (matrix.batch, matrix.free, matrix.contracted)
    )
    width = matrix.operand.shape.element_type.byte_width
    return batch * rows < tuning.min_sums and rows * depth * width > tuning.max_undivided_bytes


def _has_thin_kernel(i: HloInstruction, tuning: ThinDots) -> bool:
    """Return whether a dot with a single vector, canonical or reshaped to it, has a kernel."""
    while i.opcode is Opcode.RESHAPE:
        (i,) = i.operands
    return thin_dot(i, tuning) is not None


def _reads_both_with_strides(i: HloInstruction) -> bool:
    """Return whether a canonical dot contracts rows of the left matrix, columns of the right."""
    numbers = i.attributes.dimension_numbers
    last = i.operands[0].shape.rank - 1
    (left,), (right,) = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    return bool(left < last and right == last)


def _widened(i: HloInstruction, editor: Editor, target: Target) -> HloInstruction:
    """Return the product in s32, which wraps to the same narrow integers."""
    attributes = dataclasses.replace(i.attributes, preferred_element_type=ElementType.S32)
    wide = editor.add(Opcode.DOT, i.operands, attributes)
    return editor.convert(_canonical(wide, editor, target) or wide, i.shape.element_type)


def _sides(i: HloInstruction) -> tuple[_Side, _Side]:
    """Return both operands, contracted dimensions in the order that needs the fewest transposes."""
    lhs, rhs = i.operands
    left, right = roles_of(i.attributes.dimension_numbers, lhs.shape.rank, rhs.shape.rank)
    pairs = list(zip(left.contracting, right.contracting, strict=True))

    def sides(order: Sequence[tuple[int, int]]) -> tuple[_Side, _Side]:
        return (
            _Side(lhs, left.batch, left.free, tuple(pair[0] for pair in order)),
            _Side(rhs, right.batch, right.free, tuple(pair[1] for pair in order)),
        )

    def moved(choice: tuple[_Side, _Side]) -> int:
        return sum(part.operand.shape.element_count for part in choice if not part.needs_no_copy)

    by_lhs, by_rhs = sides(sorted(pairs)), sides(sorted(pairs, key=lambda pair: pair[1]))
    return min((by_lhs, by_rhs), key=moved)


def _is_canonical(i: HloInstruction) -> bool:
    lhs = i.operands[0].shape
    return is_matrix_product(i) and (lhs.rank == 2 or lhs.dimensions[0] > 1)


def _matrices(
    i: HloInstruction, left: _Side, right: _Side, editor: Editor, capability: Capability
) -> HloInstruction:
    lhs, left_is_transposed = left.matrix(editor, capability)
    rhs, right_is_transposed = right.matrix(editor, capability)
    first = lhs.shape.rank - 2
    if left_is_transposed and not right_is_transposed and not has_packing_kernel(i, capability):
        # A loop nest would read both operands with strides.
        lhs, left_is_transposed = editor.transpose(lhs, [*range(first), first + 1, first]), False
    batch = (0,) if first else ()
    numbers = DotDimensionNumbers(
        (first if left_is_transposed else first + 1,),
        (first if right_is_transposed else first + 1,),
        batch,
        batch,
    )
    attributes = dataclasses.replace(i.attributes, dimension_numbers=numbers)
    return editor.reshape(editor.add(Opcode.DOT, (lhs, rhs), attributes), i.shape.dimensions)


def _outer(i: HloInstruction, left: _Side, right: _Side, editor: Editor) -> HloInstruction:
    """The outer product: one multiplication for each element of the result."""
    batch = tuple(range(len(left.batch)))
    rows = tuple(range(len(batch), len(batch) + len(left.free)))
    columns = tuple(range(len(batch) + len(left.free), i.shape.rank))
    factors = [
        _spread(left, left.batch + left.free, batch + rows, i.shape.dimensions, editor),
        _spread(right, right.batch + right.free, batch + columns, i.shape.dimensions, editor),
    ]
    return editor.add(Opcode.MULTIPLY, factors)


def _spread(
    side: _Side,
    kept: Sequence[int],
    mapped: Sequence[int],
    dimensions: Sequence[int],
    editor: Editor,
) -> HloInstruction:
    """Broadcast an operand to these dimensions; its dimensions not `kept` have size 1."""
    result_dimensions = sorted(zip(kept, mapped, strict=True))
    sizes = [side.operand.shape.dimensions[d] for d, _ in result_dimensions]
    return editor.broadcast(
        editor.reshape(side.operand, sizes), [target for _, target in result_dimensions], dimensions
    )


def _vector(i: HloInstruction, matrix: _Side, vector: _Side, editor: Editor) -> HloInstruction:
    """A matrix, or a vector, times a vector: read once, in memory order."""
    element_type = i.shape.element_type
    adder = editor.binary_computation(Opcode.ADD, element_type)
    sizes = matrix.operand.shape.dimensions
    batches = zip(vector.batch, matrix.batch, strict=True)
    contracted = zip(vector.contracted, matrix.contracted, strict=True)
    dimensions = dict(itertools.chain(batches, contracted))
    kept = sorted(dimensions)
    spread = _spread(vector, kept, [dimensions[d] for d in kept], sizes, editor)
    product = editor.add(Opcode.MULTIPLY, (matrix.operand, spread))
    zero = editor.constant(0, element_type)
    total = editor.reduce(product, zero, sorted(matrix.contracted), adder)
    remaining = [d for d in range(len(sizes)) if d not in matrix.contracted]
    order = [remaining.index(d) for d in (*matrix.batch, *matrix.free)]
    return editor.reshape(editor.transpose(total, order), i.shape.dimensions)
