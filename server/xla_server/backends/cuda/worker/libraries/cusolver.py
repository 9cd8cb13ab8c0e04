"""Cholesky factorisation by cuSOLVER.

The library is column-major: a row-major matrix is its transposed there. The transposed of a
Hermitian matrix is its conjugate, and has the conjugate factors. Their transposes are the factors
of the matrix, so the other triangle is passed to the library.

Semantics: the cuSOLVER library's documentation, cusolverDn<t>potrf and cusolverDn<t>potrfBatched.
"""

from collections.abc import Sequence

from nvmath.bindings import cublas, cusolverDn

from xla_server.backends.cuda.worker.libraries.library import Libraries, borrowed
from xla_server.codegen.gpu.plans.library_plans import CholeskyPlan
from xla_server.custom_calls.linear_algebra.lapack import PREFIX


def created(stream: int) -> int:
    """Return a handle for a stream."""
    handle: int = cusolverDn.create()
    cusolverDn.set_stream(handle, stream)
    return handle


class PreparedCholesky:
    """A plan in the library's terms."""

    def __init__(self, libraries: Libraries, plan: CholeskyPlan) -> None:
        self._libraries, self._plan = libraries, plan
        triangle = cublas.FillMode.UPPER if plan.is_lower else cublas.FillMode.LOWER
        self._triangle = int(triangle)
        name = f"{PREFIX[plan.element]}potrf"
        self._size, self._factor, self._batched = (
            getattr(cusolverDn, name + form) for form in ("_buffer_size", "", "_batched")
        )

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the factorisations to a stream. Raises OutOfDeviceMemoryError."""
        handle = self._libraries.handle(created, stream)
        plan, triangle = self._plan, self._triangle
        if plan.batch > 1:
            _, status, table = addresses
            self._batched(handle, triangle, plan.order, table, plan.order, status, plan.batch)
            return
        matrix, status = addresses
        elements = self._size(handle, triangle, plan.order, matrix, plan.order)
        with borrowed(self._libraries.memory, elements * plan.element.byte_width, stream) as work:
            self._factor(handle, triangle, plan.order, matrix, plan.order, work, elements, status)
