"""LAPACK's routines by cuSOLVER, one call for each matrix, column-major as in LAPACK.

Semantics: the cuSOLVER library's documentation, cusolverDn<t>getrf, geqrf, orgqr, ormqr, syevd and
gesvd.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nvmath.bindings import cublas, cusolverDn

from xla_server.backends.cuda.worker.libraries import cusolver_batches
from xla_server.backends.cuda.worker.libraries.cusolver import created
from xla_server.backends.cuda.worker.libraries.cusolver_batches import NO_VECTORS, VECTORS
from xla_server.backends.cuda.worker.libraries.library import Libraries, borrowed
from xla_server.codegen.gpu.plans.solver_plans import (
    EigenPlan,
    LuPlan,
    QrPlan,
    ReflectedPlan,
    ReflectorsPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.custom_calls.linear_algebra.lapack import PREFIX


def prepared(libraries: Libraries, plan: SolverPlan) -> Any:
    """Return a plan in the terms of the library that has it."""
    make = cusolver_batches.prepared if plan.is_batched else PreparedRoutine
    return make(libraries, plan)


class PreparedRoutine:
    """A plan in the library's terms."""

    def __init__(self, libraries: Libraries, plan: SolverPlan) -> None:
        self._libraries, self._plan = libraries, plan
        self._steps = [count * element.byte_width for element, count in plan.parts]
        name = PREFIX[plan.element] + _name(plan)
        self._size = getattr(cusolverDn, f"{name}_buffer_size")
        self._routine = getattr(cusolverDn, name)

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the calls to a stream. Raises OutOfDeviceMemoryError."""
        plan, handle = self._plan, self._libraries.handle(created, stream)
        sizes, _ = _arguments(plan, addresses, 0, 0)
        elements = self._size(handle, *sizes)
        with borrowed(self._libraries.memory, elements * plan.element.byte_width, stream) as work:
            for number in range(plan.batch):
                pointers = [
                    address + number * step
                    for address, step in zip(addresses, self._steps, strict=True)
                ]
                _, arguments = _arguments(plan, pointers, work, elements)
                self._routine(handle, *arguments)


def _name(plan: SolverPlan) -> str:
    unitary, hermitian = ("un", "he") if plan.element.is_complex else ("or", "sy")
    names: Mapping[type[SolverPlan], str] = {
        LuPlan: "getrf",
        QrPlan: "geqrf",
        ReflectorsPlan: f"{unitary}gqr",
        ReflectedPlan: f"{unitary}mqr",
        EigenPlan: f"{hermitian}evd",
        SingularPlan: "gesvd",
    }
    return names[type(plan)]


def _arguments(
    plan: SolverPlan, pointers: Sequence[int], work: int, elements: int
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the arguments of the workspace query, and of the call with its workspace."""
    *_, status = pointers
    match plan:
        case LuPlan(rows=m, columns=n):
            a, pivots, _ = pointers
            return (m, n, a, m), (m, n, a, m, work, pivots, status)
        case QrPlan(rows=m, columns=n):
            a, factors, _ = pointers
            return (m, n, a, m), (m, n, a, m, factors, work, elements, status)
        case ReflectorsPlan(rows=m, columns=n, count=k):
            a, factors, _ = pointers
            arguments = m, n, k, a, m, factors
            return arguments, (*arguments, work, elements, status)
        case ReflectedPlan(rows=m, columns=n, count=k):
            a, factors, other, _ = pointers
            side = cublas.SideMode.LEFT if plan.is_left else cublas.SideMode.RIGHT
            adjoint = cublas.Operation.C if plan.element.is_complex else cublas.Operation.T
            form = adjoint if plan.is_adjoint else cublas.Operation.N
            applied = int(side), int(form), m, n, k, a, plan.order, factors, other, m
            return applied, (*applied, work, elements, status)
        case EigenPlan(order=n):
            a, values, _ = pointers
            mode = VECTORS if plan.has_vectors else NO_VECTORS
            triangle = cublas.FillMode.LOWER if plan.is_lower else cublas.FillMode.UPPER
            of = mode, int(triangle), n, a, n, values
            return of, (*of, work, elements, status)
        case SingularPlan(rows=m, columns=n):
            a, values, *vectors, _ = pointers
            u, vt = vectors or (0, 0)
            letter = ord("N" if not plan.left else "A" if plan.left == m else "S")
            request = letter, letter, m, n, a, m, values, u, m, vt, n
            return (m, n), (*request, work, elements, 0, status)
    raise AssertionError(plan)
