"""Lowering of LAPACK's custom calls for a GPU: plans of libraries, which have the same routines.

Values are row-major, and the matrices of routines column-major: kernels transpose them where it
matters. Calls without a library routine go through the host, and more than MAX_CALLS calls for
small matrices.

Semantics: xla_server.custom_calls.linear_algebra.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.lower.linear_algebra.triangular import (
    add_conjugates,
    add_factors,
    add_real_diagonal,
    add_solutions,
    add_zeros,
    address_tables,
)
from xla_server.codegen.gpu.lower.loop_nests.synthetic import add_computed, array_of
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_plan
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    LibraryPlan,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import (
    EigenPlan,
    LuPlan,
    QrPlan,
    ReflectedPlan,
    ReflectorsPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.codegen.lower import host
from xla_server.codegen.lower.linear_algebra.matrix_kernel import option
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.custom_calls.linear_algebra.batched import ELEMENTS
from xla_server.custom_calls.linear_algebra.lapack import PREFIX
from xla_server.ir.module import HloInstruction

_Plan = TypeVar("_Plan", bound=LibraryPlan)

_THROUGH_HOST = ThroughHost(host.lower_custom_call)


def lower_custom_call(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a library's plan, or lower for the host if no library has the routine."""
    row = _ROWS.get(i.attributes.target)
    if row is None or not all(operand.shape.element_count for operand in i.operands):
        return _THROUGH_HOST(lowering, i)
    lowering.custom_calls.resolve(i)
    try:
        return row(_Call(lowering, i))
    except _NoPlanError:
        return _THROUGH_HOST(lowering, i)


class _NoPlanError(Exception):
    """No library computes a call."""


def _checked(plan: _Plan) -> _Plan:
    """Return a plan. Raises _NoPlanError for one that no library computes."""
    if plan.problem is not None:
        raise _NoPlanError
    return plan


class _Call:
    """The lowering of one call: its matrices, operands and results."""

    def __init__(self, lowering: Lowering, i: HloInstruction) -> None:
        first = i.operands[0].shape
        self.lowering, self.instruction = lowering, i
        self.element = first.element_type
        *batch, self.rows, self.columns = first.dimensions
        self.sizes = tuple(batch)
        self.batch = math.prod(batch)
        self.results = tuple(i.shape.leaves())

    def option(self, name: str) -> str:
        """An attribute that is a letter."""
        return option(self.instruction, name)

    def operand(self, number: int) -> Value:
        """The value of an operand."""
        return self.lowering.array(self.instruction.operands[number])

    def result(self, number: int) -> Value:
        """Memory for a result."""
        return self.lowering.new(self.results[number], f"{self.instruction.name}.{number}")

    def workspace(self, element: ElementType, *sizes: int) -> Value:
        """Memory for arrays of the batch that are no results."""
        shape = Shape.array(element, (*self.sizes, *sizes))
        return self.lowering.new(shape, f"{self.instruction.name}.workspace")

    def status(self) -> Value:
        """Memory for a status that is no result."""
        return self.workspace(ElementType.S32)

    def copied(self, number: int) -> Value:
        """A copy of an operand."""
        shape, name = self.instruction.operands[number].shape, f"{self.instruction.name}.copy"
        value = self.lowering.new(shape, name)
        self.lowering.copy(value, self.operand(number))
        return value

    def column_major(self, number: int) -> Value:
        """A copy of an operand's matrices, column-major."""
        return self._transposed(self.operand(number), self.instruction.operands[number].shape)

    def row_major(self, value: Value, rows: int, columns: int) -> Value:
        """Copy the first columns of column-major matrices of `rows` rows to a row-major value."""
        return self._transposed(
            value, Shape.array(value.shape.element_type, (*self.sizes, columns, rows))
        )

    def first(self, value: Value, rows: int, columns: int) -> Value:
        """Return the first columns of column-major matrices of `rows` rows, copied if not all."""
        shape = Shape.array(value.shape.element_type, (*self.sizes, columns, rows))
        source, root = self._first(value, shape)
        return value if root is source else add_computed(self.lowering, source, value, root)

    def _transposed(self, value: Value, shape: Shape) -> Value:
        rank = shape.rank
        order = *range(rank - 2), rank - 1, rank - 2
        transposed = Shape.array(shape.element_type, [shape.dimensions[d] for d in order])
        source, first = self._first(value, shape)
        name, attributes = f"{self.instruction.name}.transposed", TransposeAttributes(tuple(order))
        root = HloInstruction(name, 0, Opcode.TRANSPOSE, transposed, (first,), attributes)
        return add_computed(self.lowering, source, value, root)

    def _first(self, value: Value, shape: Shape) -> tuple[HloInstruction, HloInstruction]:
        """Return the row-major matrices of a value, and their first rows, which have this shape."""
        *sizes, rows, columns = shape.dimensions
        stored = value.shape.element_count // (self.batch * columns)
        source = array_of(Shape.array(shape.element_type, (*sizes, stored, columns)))
        if stored == rows:
            return source, source
        ones, zeros = (1,) * shape.rank, (0,) * shape.rank
        attributes = SliceAttributes(zeros, shape.dimensions, ones)
        name = f"{self.instruction.name}.first"
        return source, HloInstruction(name, 0, Opcode.SLICE, shape, (source,), attributes)

    def add(
        self, plan: SolverPlan, *arguments: Value, reads: int = 0, updates: tuple[Value, ...]
    ) -> None:
        """Add the thunk of a plan, which only reads its first `reads` arguments."""
        name, writes = self.instruction.name, arguments[reads:]
        tables = address_tables(self.lowering, name, plan.batch, *arguments[: plan.tables])
        operands = *arguments, *tables
        add_plan(self.lowering, name, plan, operands, writes=writes, updates=updates)


def _factors(call: _Call) -> Tree:
    """(the factor in a copy of the operand, whose other triangle is unchanged, status)"""
    is_lower = call.option("uplo") == "L"
    plan = _checked(CholeskyPlan(call.element, call.batch, call.rows, is_lower))
    matrices, status = call.copied(0), call.result(1)
    add_factors(call.lowering, call.instruction.name, plan, matrices, status)
    return matrices, status


def _solutions(call: _Call) -> Tree:
    """The solution in a copy of the right-hand side."""
    rows, columns = call.instruction.shape.dimensions[-2:]
    is_left, is_lower = call.option("side") == "L", call.option("uplo") == "L"
    form = is_left, is_lower, call.option("diag") == "U", call.option("trans_x")
    plan = _checked(TriangularSolvePlan(call.element, call.batch, rows, columns, *form))
    solutions = call.copied(1)
    add_solutions(call.lowering, call.instruction.name, plan, call.operand(0), solutions)
    return solutions


def _lu(call: _Call) -> Tree:
    """(L and U, the rows exchanged, status)"""
    plan = _checked(LuPlan(call.element, call.batch, call.rows, call.columns))
    matrices, pivots, status = call.column_major(0), call.result(1), call.result(2)
    call.add(plan, matrices, pivots, status, updates=(matrices,))
    return call.row_major(matrices, plan.rows, plan.columns), pivots, status


def _qr(call: _Call) -> Tree:
    """(R and the reflectors, the reflectors' factors)"""
    plan = _checked(QrPlan(call.element, call.batch, call.rows, call.columns))
    matrices, factors = call.column_major(0), call.result(1)
    call.add(plan, matrices, factors, call.status(), updates=(matrices,))
    return call.row_major(matrices, plan.rows, plan.columns), factors


def _reflectors(call: _Call) -> Tree:
    """The first columns of the product of the reflectors."""
    count = call.instruction.operands[1].shape.dimensions[-1]
    plan = _checked(ReflectorsPlan(call.element, call.batch, call.rows, call.columns, count))
    matrices, factors, status = call.column_major(0), call.operand(1), call.status()
    writes = matrices, status
    name, arguments = call.instruction.name, (matrices, factors, status)
    add_plan(call.lowering, name, plan, arguments, writes=writes, updates=(matrices,))
    return call.row_major(matrices, plan.rows, plan.columns)


def _reflected(call: _Call) -> Tree:
    """The product of the reflectors with another matrix."""
    rows, columns = call.instruction.shape.dimensions[-2:]
    attributes = parse_attributes(call.instruction.attributes.opaque)
    form = bool(attributes["left"]), bool(attributes["transpose"])
    plan = _checked(ReflectedPlan(call.element, call.batch, rows, columns, call.columns, *form))
    reflectors, factors, others = call.column_major(0), call.operand(1), call.column_major(2)
    call.add(plan, reflectors, factors, others, call.status(), reads=2, updates=(others,))
    return call.row_major(others, plan.rows, plan.columns)


def _eigen(call: _Call) -> Tree:
    """(eigenvectors or the operand, eigenvalues ascending, status)"""
    form = call.option("uplo") == "L", call.option("mode") == "V"
    plan = _checked(EigenPlan(call.element, call.batch, call.rows, *form))
    matrices, values, status = call.column_major(0), call.result(1), call.result(2)
    add_real_diagonal(call.lowering, matrices, plan.order)
    call.add(plan, matrices, values, status, updates=(matrices,))
    if not plan.has_vectors:
        return call.copied(0), values, status
    return call.row_major(matrices, plan.order, plan.order), values, status


def _singular_plan(call: _Call) -> SingularPlan:
    """Return the plan. A wide matrix is read as its transpose, uncopied: u and v are exchanged.

    For a batch of small matrices, a library computes all vectors or none.
    """
    columns, rows = sorted((call.rows, call.columns))
    left = {"A": rows, "S": columns, "N": 0}[call.option("mode")]
    plan = SingularPlan(call.element, call.batch, rows, columns, left)
    whole = dataclasses.replace(plan, left=rows)
    return whole if left and whole.is_batched else plan


def _singular(call: _Call) -> Tree:
    """(the operand, singular values descending, left and right vectors in rows, status)"""
    plan, is_wide = _checked(_singular_plan(call)), call.rows < call.columns
    matrices = call.copied(0) if is_wide else call.column_major(0)
    values, status = call.result(1), call.result(4)
    if not plan.left:
        call.add(plan, matrices, values, status, updates=(matrices,))
        vectors = [call.result(number) for number in (2, 3)]
        for each in vectors:
            add_zeros(call.lowering, each)
    else:
        sizes = (plan.rows, plan.left), (plan.columns, plan.columns)
        packed = [call.workspace(plan.element, *pair[::-1]) for pair in sizes]
        call.add(plan, matrices, values, *packed, status, updates=(matrices,))
        count = plan.columns if call.option("mode") == "S" else plan.left
        kept = (plan.rows, count), sizes[1]
        # A batched plan has v itself, not its adjoint.
        turned = not is_wide, is_wide == plan.is_batched
        vectors = [
            call.row_major(each, *pair) if is_row_major else call.first(each, *pair)
            for each, pair, is_row_major in zip(packed, kept, turned, strict=True)
        ]
        if plan.is_batched:
            add_conjugates(call.lowering, vectors[1])
        if is_wide:
            vectors.reverse()
    return call.copied(0), values, *vectors, status


def _rows(element: ElementType) -> Mapping[str, Callable[[_Call], Tree]]:
    """The lowerings by LAPACK's names without the letter of the type."""
    unitary, hermitian = ("un", "he") if element.is_complex else ("or", "sy")
    return {
        "potrf": _factors,
        "trsm": _solutions,
        "getrf": _lu,
        "geqrf": _qr,
        f"{unitary}gqr": _reflectors,
        f"{unitary}mqr": _reflected,
        f"{hermitian}evd": _eigen,
        "gesdd": _singular,
        "gesvd": _singular,
    }


_ROWS: Mapping[str, Callable[[_Call], Tree]] = MappingProxyType(
    {
        f"lapack_{PREFIX[element]}{name}_ffi": row
        for element in ELEMENTS
        for name, row in _rows(element).items()
    }
    | {"ProductOfElementaryHouseholderReflectors": _reflectors, "Qr": _qr}
)
"""Lowerings by target."""
