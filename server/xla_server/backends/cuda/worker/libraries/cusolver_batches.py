"""LAPACK's routines for all matrices of a batch by one call of cuBLAS or cuSOLVER.

Semantics: the cuBLAS library's documentation, cublas<t>getrfBatched and geqrfBatched, and the
cuSOLVER library's, cusolverDn<t>syevjBatched and gesvdjBatched.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from nvmath.bindings import cublas, cusolverDn

from xla_server.backends.cuda.worker.libraries import cublas as products
from xla_server.backends.cuda.worker.libraries import cusolver as solvers
from xla_server.backends.cuda.worker.libraries.library import Libraries, borrowed
from xla_server.codegen.gpu.plans.solver_plans import (
    EigenPlan,
    LuPlan,
    QrPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.custom_calls.linear_algebra.lapack import PREFIX

NO_VECTORS, VECTORS = 0, 1
"""Requests to eigenproblems: cusolverEigMode_t, cusolver_common.h."""


class PreparedFactorisation:
    """A plan of LU or QR in cuBLAS's terms, which takes the addresses of matrices."""

    def __init__(self, libraries: Libraries, plan: LuPlan | QrPlan) -> None:
        self._libraries, self._plan = libraries, plan
        name = "getrf" if isinstance(plan, LuPlan) else "geqrf"
        self._routine = getattr(cublas, f"{PREFIX[plan.element]}{name}_batched")

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the call to a stream."""
        plan, handle = self._plan, self._libraries.handle(products.created, stream)
        _, pivots, status, matrices = addresses
        if isinstance(plan, LuPlan):
            self._routine(handle, plan.rows, matrices, plan.rows, pivots, status, plan.batch)
            return
        factors = matrices + plan.batch * products.ADDRESS_BYTES
        # It is about arguments alone, and an error of the call too.
        refused = np.zeros(1, np.int32)
        given = plan.rows, plan.columns, matrices, plan.rows, factors, refused.ctypes.data
        self._routine(handle, *given, plan.batch)


class PreparedRotations:
    """A plan of eigenvalues or singular values in cuSOLVER's terms: Jacobi's method."""

    def __init__(self, libraries: Libraries, plan: EigenPlan | SingularPlan) -> None:
        self._libraries, self._plan = libraries, plan
        hermitian = "heevj" if plan.element.is_complex else "syevj"
        name = hermitian if isinstance(plan, EigenPlan) else "gesvdj"
        routine = f"{PREFIX[plan.element]}{name}_batched"
        self._size = getattr(cusolverDn, f"{routine}_buffer_size")
        self._routine = getattr(cusolverDn, routine)

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the call to a stream. Raises OutOfDeviceMemoryError."""
        plan, handle = self._plan, self._libraries.handle(solvers.created, stream)
        matrices, values, *vectors, status = addresses
        with contextlib.ExitStack() as stack:

            def workspace(elements: int) -> int:
                byte_size = elements * plan.element.byte_width
                return stack.enter_context(borrowed(self._libraries.memory, byte_size, stream))

            if isinstance(plan, EigenPlan):
                options = self._libraries.handle(_eigen_options, stream)
                mode = VECTORS if plan.has_vectors else NO_VECTORS
                triangle = cublas.FillMode.LOWER if plan.is_lower else cublas.FillMode.UPPER
                n = plan.order
                given: tuple[Any, ...] = mode, int(triangle), n, matrices, n, values
            else:
                options = self._libraries.handle(_singular_options, stream)
                m, n, mode = plan.rows, plan.columns, VECTORS if plan.left else NO_VECTORS
                # PyTorch found that calls fail without memory for vectors, computed or not.
                u, v = vectors or [workspace(plan.batch * order**2) for order in (m, n)]
                given = mode, m, n, matrices, m, values, u, m, v, n
            elements = self._size(handle, *given, options, plan.batch)
            self._routine(
                handle, *given, workspace(elements), elements, status, options, plan.batch
            )


def prepared(libraries: Libraries, plan: SolverPlan) -> PreparedFactorisation | PreparedRotations:
    """Return a batched plan in its library's terms."""
    match plan:
        case LuPlan() | QrPlan():
            return PreparedFactorisation(libraries, plan)
        case EigenPlan() | SingularPlan():
            return PreparedRotations(libraries, plan)
    raise AssertionError(plan)


def _eigen_options(_: int) -> Any:
    """Return the library's own tolerance and number of sweeps, with ascending eigenvalues."""
    return cusolverDn.create_syevj_info()


def _singular_options(_: int) -> Any:
    """Return the library's own tolerance and number of sweeps, with descending values."""
    return cusolverDn.create_gesvdj_info()
