"""Lowering of cholesky and triangular-solve for a GPU: one call of a library for a batch.

A library overwrites copies of the operands. It has batches as arrays of addresses, which a kernel
writes. Plans that no library computes go through the host.
"""

import math

from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import CopyThunk, Value
from xla_server.codegen.gpu.lower.library_thunks import add_plan
from xla_server.codegen.gpu.lower.thread_thunks import thread_thunk
from xla_server.codegen.gpu.lower.through_host import ThroughHost
from xla_server.codegen.gpu.plans import CholeskyPlan, TriangularSolvePlan
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.expressions import (
    Address,
    Apply,
    Buffer,
    Const,
    Expression,
    Load,
    Role,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.linear_algebra import triangular
from xla_server.codegen.lower.linear_algebra.matrix_kernel import real
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction

_CHOLESKY = ThroughHost(triangular.lower_cholesky)
_TRIANGULAR_SOLVE = ThroughHost(triangular.lower_triangular_solve)

_LETTERS = {Transpose.NO_TRANSPOSE: "N", Transpose.TRANSPOSE: "T", Transpose.ADJOINT: "C"}


def lower_triangular_solve(lowering: Lowering, i: HloInstruction) -> Tree:
    """Solve within a copy of the right sides."""
    if not i.shape.element_count:
        return lowering.new(i.shape, i.name)
    plan = solve_plan(i)
    if plan.problem is not None:
        return _TRIANGULAR_SOLVE(lowering, i)
    matrix, right = (lowering.array(operand) for operand in i.operands)
    result = lowering.new(i.shape, i.name)
    lowering.add(CopyThunk(result, right))
    tables = _tables(lowering, i, plan.batch, matrix, result)
    given = matrix, result, *tables
    add_plan(lowering, i.name, plan, given, writes=(result,), updates=(result,))
    return result


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
    """Factor a copy of the matrices; NaN where there is no factor, zeros beside it."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    plan = cholesky_plan(i)
    if plan.problem is not None:
        return _CHOLESKY(lowering, i)
    lowering.add(CopyThunk(result, lowering.array(i.operands[0])))
    status = lowering.new(Shape.array(ElementType.S32, (plan.batch,)), f"{i.name}.status")
    tables = _tables(lowering, i, plan.batch, result)
    given = result, status, *tables
    add_plan(lowering, i.name, plan, given, writes=(result, status), updates=(result,))
    _add_test(lowering, i.name, plan, result, status)
    _add_triangle(lowering, i.name, plan, result, status)
    return result


def cholesky_plan(i: HloInstruction) -> CholeskyPlan:
    """Return the plan of a cholesky."""
    attributes: CholeskyAttributes = i.attributes
    *batch, order, _ = i.shape.dimensions
    return CholeskyPlan(i.shape.element_type, math.prod(batch), order, attributes.lower)


def _tables(lowering: Lowering, i: HloInstruction, batch: int, *arrays: Value) -> tuple[Value, ...]:
    """Return the addresses of the matrices of arrays, one array after the other, if of a batch."""
    if batch == 1:
        return ()
    table = lowering.new(
        Shape.array(ElementType.S64, (len(arrays) * batch,)), f"{i.name}.addresses"
    )
    buffers = [Buffer(number, Role.READ) for number in range(len(arrays))]
    written, top = Buffer(len(arrays), Role.WRITE), Body()
    with Items(top, batch) as items:
        for number, (buffer, array) in enumerate(zip(buffers, arrays, strict=True)):
            address = Address(buffer) + items.axis * (array.byte_size // batch)
            items.store(written, "i64", items.axis + number * batch, address)
    kernel = Kernel((*buffers, written), (), tuple(top.statements))
    lowering.add(thread_thunk(table.name, kernel, (*arrays, table)))
    return (table,)


def _add_test(
    lowering: Lowering, name: str, plan: CholeskyPlan, result: Value, status: Value
) -> None:
    """Add a kernel that marks factors with NaN among their pivots, which no library looks for."""
    kind, parts = _real_of(plan.element)
    matrices, failed = Buffer(0, Role.READ), Buffer(1, Role.SCRATCH)
    apart = plan.order * plan.order * parts
    top = Body()
    with Items(top, plan.batch) as items:
        first = items.let("first", items.axis * apart)
        zero = Const(Type.I32, (0,))
        start = condition("ne", Load(failed, Type.I32, items.axis), zero)
        found = items.declare("found", start)
        with Loop(items, "row", plan.order) as loop:
            at = first + loop.axis * ((plan.order + 1) * parts)
            pivot = loop.let("pivot", Load(matrices, kind, at))
            loop.set(found, condition("bit_or", found, condition("ne", pivot, pivot)))
        value = Apply("select", (found, Const(Type.I32, (1,)), zero), Type.I32)
        items.store(failed, Type.I32.value, items.axis, value)
    kernel = Kernel((matrices, failed), (), tuple(top.statements))
    lowering.add(thread_thunk(f"{name}.test", kernel, (result, status), updates=(status,)))


def _add_triangle(
    lowering: Lowering, name: str, plan: CholeskyPlan, result: Value, status: Value
) -> None:
    """Add a kernel that clears the other triangle, or makes all of a matrix NaN."""
    kind, parts = _real_of(plan.element)
    failed, matrices = Buffer(0, Role.READ), Buffer(1, Role.WRITE)
    n = plan.order
    top = Body()
    with Items(top, result.shape.element_count) as items:
        column = items.let("column", items.axis % n)
        rest = items.let("rest", items.axis // n)
        row, matrix = items.let("row", rest % n), items.let("matrix", rest // n)

        def fill(body: Body, value: Expression) -> None:
            for part in range(parts):
                body.store(matrices, kind.value, items.axis * parts + part, value)

        is_failed = condition("ne", Load(failed, Type.I32, matrix), Const(Type.I32, (0,)))
        with Branch(items, is_failed) as branch:
            fill(branch, real(kind.value, math.nan))
            pair = (row, column) if plan.is_lower else (column, row)
            with Branch(branch.orelse, condition("lt", *pair)) as other:
                fill(other, real(kind.value, 0.0))
    kernel = Kernel((failed, matrices), (), tuple(top.statements))
    lowering.add(thread_thunk(f"{name}.triangle", kernel, (status, result), updates=(result,)))


def _real_of(element: ElementType) -> tuple[Type, int]:
    """Return the type of the parts of an element, and how many there are."""
    part = element.real_component if element.is_complex else element
    return Type(part.text), 2 if element.is_complex else 1
