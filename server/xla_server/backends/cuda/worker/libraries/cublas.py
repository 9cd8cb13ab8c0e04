"""Solution of triangular systems by cuBLAS.

The library is column-major: a row-major matrix is its transposed there. So it solves the transposed
system, with a on the other side and in the other triangle.

Semantics: the cuBLAS library's documentation, cublas<t>trsm and cublas<t>trsmBatched.
"""

from collections.abc import Sequence

import numpy as np
from nvmath.bindings import cublas

from xla_server.backends.cuda.worker.libraries.library import Libraries
from xla_server.codegen.gpu.plans.library_plans import TriangularSolvePlan
from xla_server.custom_calls.linear_algebra.lapack import PREFIX

_FORMS = {"N": cublas.Operation.N, "T": cublas.Operation.T, "C": cublas.Operation.C}

ADDRESS_BYTES = 8
"""Bytes of an address in the table of a batched call."""


def created(stream: int) -> int:
    """Return a handle for a stream, whose calls read scale factors from host memory."""
    handle: int = cublas.create()
    cublas.set_stream(handle, stream)
    cublas.set_pointer_mode(handle, int(cublas.PointerMode.HOST))
    return handle


class PreparedTriangularSolve:
    """A plan in the library's terms."""

    def __init__(self, libraries: Libraries, plan: TriangularSolvePlan) -> None:
        self._libraries, self._plan = libraries, plan
        self._factor = np.ones(1, plan.element.dtype)
        side = cublas.SideMode.RIGHT if plan.is_left else cublas.SideMode.LEFT
        triangle = cublas.FillMode.UPPER if plan.is_lower else cublas.FillMode.LOWER
        diagonal = cublas.DiagType.UNIT if plan.is_unit else cublas.DiagType.NON_UNIT
        name = f"{PREFIX[plan.element]}trsm"
        self._one, self._batched = getattr(cublas, name), getattr(cublas, f"{name}_batched")
        self._forms = int(side), int(triangle), int(_FORMS[plan.transpose]), int(diagonal)

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the solution to a stream."""
        plan, handle = self._plan, self._libraries.handle(created, stream)
        alpha = self._factor.ctypes.data
        given = (handle, *self._forms, plan.columns, plan.rows, alpha)
        if plan.batch == 1:
            matrix, right = addresses
            self._one(*given, matrix, plan.order, right, plan.columns)
            return
        _, _, tables = addresses
        rights = tables + plan.batch * ADDRESS_BYTES
        self._batched(*given, tables, plan.order, rights, plan.columns, plan.batch)
