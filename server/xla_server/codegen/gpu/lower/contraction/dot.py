"""Lowering of dot for a GPU: a library's product, without copies of its operands.

Dimensions of one role (batch, rows, columns or contracted) are merged if they are adjacent in
memory. The plan has transposes and strides. Other products are loop nests, and so are those with
one vector: threads read each element once, too. Small ones are loop nests that include their
epilogues, and share launches.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import DotAttributes, free_dimensions
from xla_contract.ops.contraction.precision import allows_tf32
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_with_workspace
from xla_server.codegen.gpu.plans.library_plans import GemmPlan, Matrix
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.fusion.analysis.fusible import continues_product
from xla_server.fusion.product_epilogues import ProductChains
from xla_server.ir.module import HloInstruction


def lower_dot(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a library's product, or a loop nest."""
    plan = product_of(i)
    if plan is None or continues_product(i, lowering.target.capability):
        return lower_loop(lowering, i)
    operands = [lowering.array(operand) for operand in i.operands]
    return add_with_workspace(lowering, i.name, plan, operands, lowering.new(i.shape, i.name))


def lower_product_fusion(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a library's product with its epilogue, or a loop nest of both."""
    (called,) = i.called
    dot = next(each for each in called.instructions if each.opcode is Opcode.DOT)
    plan = product_of(dot)
    if plan is None or continues_product(dot, lowering.target.capability):
        return lower_loop(lowering, i)
    chain = ProductChains(called).take(dot)
    assert chain.last is called.root, i
    plan = dataclasses.replace(plan, epilogue=chain.epilogue)
    parts = [*dot.operands, chain.addend, chain.bias]
    numbers = [called.parameters.index(part) for part in parts if part is not None]
    values = [lowering.array(i.operands[number]) for number in numbers]
    # Operands of the product are read until the last element is stored.
    is_over = chain.addend is not None and values[2] not in (*values[:2], *values[3:])
    result, overwritten = lowering.new(i.shape, i.name), values[2:3] if is_over else ()
    return add_with_workspace(lowering, i.name, plan, values, result, overwritten)


def product_of(i: HloInstruction) -> GemmPlan | None:
    """Return the plan of a dot that a library computes; None for a loop nest."""
    plan = plan_of(i)
    if plan is None or plan.problem is not None:
        return None
    # A library would add sums of one product to zero, by which -0 would become 0.
    return None if 1 in (plan.rows, plan.columns, plan.depth) else plan


def plan_of(i: HloInstruction) -> GemmPlan | None:
    """Return a dot as one batched product; None if an operand is not stored as matrices."""
    if not all(operand.shape.element_count for operand in i.operands):
        return None
    attributes: DotAttributes = i.attributes
    numbers = attributes.dimension_numbers
    pairs = list(
        zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True)
    )
    for order in (sorted(pairs), sorted(pairs, key=lambda pair: pair[1])):
        left, right = (
            _Side.of(operand.shape, batch, [pair[side] for pair in order])
            for side, (operand, batch) in enumerate(
                zip(
                    i.operands,
                    (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
                    strict=True,
                )
            )
        )
        if left is not None and right is not None:
            return _plan(i, left, right)
    return None


def _plan(i: HloInstruction, left: "_Side", right: "_Side") -> GemmPlan | None:
    rows, columns, depth = left.free.size, right.free.size, left.summed.size
    lhs, rhs = left.matrix(left.free, left.summed), right.matrix(right.summed, right.free)
    if lhs is None or rhs is None:
        return None
    result = Matrix(i.shape.element_type, columns, rows * columns)
    is_f32 = lhs.element in (ElementType.F32, ElementType.C64)
    rounds = is_f32 and allows_tf32(i.attributes.precision, i.attributes.algorithm)
    return GemmPlan(left.batch.size, rows, columns, depth, lhs, rhs, result, rounds)


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """Dimensions merged in memory: number of elements, and stride."""

    size: int = 1
    apart: int = 1

    @classmethod
    def of(cls, shape: Shape, dimensions: Sequence[int]) -> "_Run | None":
        """Return dimensions, in this order, merged; None if they are not adjacent."""
        found: _Run | None = None
        for d in reversed(dimensions):
            size, apart = shape.dimensions[d], math.prod(shape.dimensions[d + 1 :])
            if size == 1:
                continue
            if found is None:
                found = cls(size, apart)
            elif apart == found.size * found.apart:
                found = cls(size * found.size, found.apart)
            else:
                return None
        return found or cls()


@dataclasses.dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot, with its dimensions by role."""

    element: ElementType
    batch: _Run
    free: _Run
    summed: _Run

    @classmethod
    def of(cls, shape: Shape, batch: Sequence[int], summed: Sequence[int]) -> "_Side | None":
        """Return an operand, contracted dimensions in this order; None if a role is not one run."""
        uses = batch, free_dimensions(shape.rank, batch, summed), summed
        runs = [_Run.of(shape, dimensions) for dimensions in uses]
        found = [run for run in runs if run is not None]
        return cls(shape.element_type, *found) if len(found) == len(runs) else None

    def matrix(self, rows: _Run, columns: _Run) -> Matrix | None:
        """Return the operand as matrices; None if neither rows nor columns are contiguous."""
        for run, other in ((columns, rows), (rows, columns)):
            is_dense = run.apart == 1 or run.size == 1
            if is_dense and (other.size == 1 or other.apart >= run.size):
                ahead = run.size if other.size == 1 else other.apart
                return Matrix(self.element, ahead, self._apart, is_transposed=run is rows)
        return None

    @property
    def _apart(self) -> int:
        return self.batch.apart if self.batch.size > 1 else 0
