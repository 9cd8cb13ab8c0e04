"""Lowering of cholesky and triangular-solve for a GPU: one call of a library for a batch.

A library overwrites copies of the operands. It takes batches as arrays of addresses, which a kernel
writes. Plans that no library computes go through the host.
"""

import math

from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_plan
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel, thread_thunk
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.codegen.gpu.plans.library_plans import CholeskyPlan, TriangularSolvePlan
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.linear_algebra import triangular
from xla_server.codegen.lower.linear_algebra.matrix_kernel import real, to
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction

_CHOLESKY = ThroughHost(triangular.lower_cholesky)
_TRIANGULAR_SOLVE = ThroughHost(triangular.lower_triangular_solve)

_LETTERS = {Transpose.NO_TRANSPOSE: "N", Transpose.TRANSPOSE: "T", Transpose.ADJOINT: "C"}


def lower_triangular_solve(lowering: Lowering, i: HloInstruction) -> Tree:
    """Solve within a copy of the right-hand sides."""
    if not i.shape.element_count:
        return lowering.new(i.shape, i.name)
    plan = solve_plan(i)
    if plan.problem is not None:
        return _TRIANGULAR_SOLVE(lowering, i)
    matrix, right = (lowering.array(operand) for operand in i.operands)
    result = lowering.new(i.shape, i.name)
    lowering.copy(result, right)
    add_solutions(lowering, i.name, plan, matrix, result)
    return result


def add_solutions(
    lowering: Lowering, name: str, plan: TriangularSolvePlan, matrix: Value, right: Value
) -> None:
    """Add the thunk that solves systems within their right-hand sides."""
    tables = address_tables(lowering, name, plan.batch, matrix, right)
    operands = matrix, right, *tables
    add_plan(lowering, name, plan, operands, writes=(right,), updates=(right,))


def solve_plan(i: HloInstruction) -> TriangularSolvePlan:
    """Return the plan of a triangular-solve."""
    a: TriangularSolveAttributes = i.attributes
    *batch, rows, columns = i.shape.dimensions
    letter = _LETTERS[a.transpose_a]
    return TriangularSolvePlan(
        i.shape.element_type,
        math.prod(batch),
        rows,
        columns,
        a.left_side,
        a.lower,
        a.unit_diagonal,
        letter,
    )


def lower_cholesky(lowering: Lowering, i: HloInstruction) -> Tree:
    """Factor a copy of the matrices; NaN without a factor, zeros in the other triangle."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    plan = cholesky_plan(i)
    if plan.problem is not None:
        return _CHOLESKY(lowering, i)
    lowering.copy(result, lowering.array(i.operands[0]))
    status = lowering.new(Shape.array(ElementType.S32, (plan.batch,)), f"{i.name}.status")
    add_factors(lowering, i.name, plan, result, status)
    _add_triangle(lowering, i.name, plan, result, status)
    return result


def add_factors(
    lowering: Lowering, name: str, plan: CholeskyPlan, matrices: Value, status: Value
) -> None:
    """Add thunks that overwrite matrices by factors; a status is the row of the first bad pivot."""
    add_real_diagonal(lowering, matrices, plan.order)
    tables = address_tables(lowering, name, plan.batch, matrices)
    operands = matrices, status, *tables
    add_plan(lowering, name, plan, operands, writes=(matrices, status), updates=(matrices,))
    _add_test(lowering, name, plan, matrices, status)


def cholesky_plan(i: HloInstruction) -> CholeskyPlan:
    """Return the plan of a cholesky."""
    attributes: CholeskyAttributes = i.attributes
    *batch, order, _ = i.shape.dimensions
    return CholeskyPlan(i.shape.element_type, math.prod(batch), order, attributes.lower)


def address_tables(lowering: Lowering, name: str, batch: int, *arrays: Value) -> tuple[Value, ...]:
    """Return the addresses of the matrices of arrays, one array after the other, if of a batch."""
    if batch == 1 or not arrays:
        return ()
    table = lowering.new(Shape.array(ElementType.S64, (len(arrays) * batch,)), f"{name}.addresses")
    kernel = ThreadKernel(table.name)
    addresses = [ir.Address(kernel.reads(array)) for array in arrays]
    with Items(kernel.top, batch) as items:
        for number, (first, array) in enumerate(zip(addresses, arrays, strict=True)):
            address = first + items.axis * (array.byte_size // batch)
            items.store(kernel.writes(table), "i64", items.axis + number * batch, address)
    lowering.add(kernel.thunk(polls=False))
    return (table,)


def _add_test(
    lowering: Lowering, name: str, plan: CholeskyPlan, result: Value, status: Value
) -> None:
    """Add a kernel that finds the first NaN among pivots, which no library reports."""
    kind, parts = _real_of(plan.element)
    matrices, failed = ir.Buffer(0, ir.Usage.READ), ir.Buffer(1, ir.Usage.SCRATCH)
    apart = plan.order * plan.order * parts
    top = Body()
    with Items(top, plan.batch) as items:
        first = items.let("first", items.axis * apart)
        zero = ir.Const(Type.I32, (0,))
        found = items.declare("found", ir.Load(failed, Type.I32, items.axis))
        with Loop(items, "row", plan.order) as loop:
            at = first + loop.axis * ((plan.order + 1) * parts)
            pivot = loop.let("pivot", ir.Load(matrices, kind, at))
            is_first = ir.condition(
                "bit_and", ir.condition("eq", found, zero), ir.condition("ne", pivot, pivot)
            )
            row = to("i32", loop.axis + 1)
            loop.set(found, ir.Apply("select", (is_first, row, found), Type.I32))
        items.store(failed, Type.I32.value, items.axis, found)
    kernel = Kernel((matrices, failed), (), tuple(top.statements))
    lowering.add(thread_thunk(f"{name}.test", kernel, (result, status), updates=(status,)))


def _add_triangle(
    lowering: Lowering, name: str, plan: CholeskyPlan, result: Value, status: Value
) -> None:
    """Add a kernel that clears the other triangle, or fills a matrix without a factor with NaN."""
    kind, parts = _real_of(plan.element)
    kernel, n = ThreadKernel(f"{name}.triangle"), plan.order
    failed, matrices = kernel.reads(status), kernel.updates(result)
    with Items(kernel.top, result.shape.element_count) as items:
        column = items.let("column", items.axis % n)
        rest = items.let("rest", items.axis // n)
        row, matrix = items.let("row", rest % n), items.let("matrix", rest // n)

        def fill(body: Body, value: ir.Expression) -> None:
            for part in range(parts):
                body.store(matrices, kind.value, items.axis * parts + part, value)

        is_failed = ir.condition("ne", ir.Load(failed, Type.I32, matrix), ir.Const(Type.I32, (0,)))
        with Branch(items, is_failed) as branch:
            fill(branch, real(kind.value, math.nan))
            pair = (row, column) if plan.is_lower else (column, row)
            with Branch(branch.orelse, ir.condition("lt", *pair)) as other:
                fill(other, real(kind.value, 0.0))
    lowering.add(kernel.thunk())


def add_real_diagonal(lowering: Lowering, matrices: Value, order: int) -> None:
    """Add a kernel that clears the imaginary parts of diagonals, which LAPACK does not read."""
    kind, parts = _real_of(matrices.shape.element_type)
    if parts == 1:
        return
    kernel = ThreadKernel(f"{matrices.name}.diagonal")
    batch = matrices.shape.element_count // order**2
    with Items(kernel.top, batch * order) as items:
        matrix, row = items.axis // order, items.axis % order
        at = items.let("at", matrix * order**2 + row * (order + 1))
        items.store(kernel.updates(matrices), kind.value, at * 2 + 1, real(kind.value, 0.0))
    lowering.add(kernel.thunk())


def add_conjugates(lowering: Lowering, value: Value) -> None:
    """Add a kernel that overwrites an array with its conjugates."""
    kind, parts = _real_of(value.shape.element_type)
    if parts == 1:
        return
    buffer, top = ir.Buffer(0, ir.Usage.SCRATCH), Body()
    with Items(top, value.shape.element_count) as items:
        at = items.let("at", items.axis * 2 + 1)
        opposite = ir.Apply("neg", (ir.Load(buffer, kind, at),), kind)
        items.store(buffer, kind.value, at, opposite)
    kernel = Kernel((buffer,), (), tuple(top.statements))
    lowering.add(thread_thunk(f"{value.name}.conjugates", kernel, (value,), updates=(value,)))


def add_zeros(lowering: Lowering, value: Value) -> None:
    """Add a kernel that fills an array of floats with zeros."""
    kind, parts = _real_of(value.shape.element_type)
    kernel = ThreadKernel(f"{value.name}.zeros")
    with Items(kernel.top, value.shape.element_count * parts) as items:
        items.store(kernel.writes(value), kind.value, items.axis, real(kind.value, 0.0))
    lowering.add(kernel.thunk())


def _real_of(element: ElementType) -> tuple[Type, int]:
    """Return the type of the parts of an element, and their number."""
    part = element.real_component
    return Type(part.text), 2 if element.is_complex else 1
