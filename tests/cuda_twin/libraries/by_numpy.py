"""Plans of libraries by numpy and scipy, on addresses of the host.

Operands are not rounded to TF32. Workspaces, and operands that a library may write to, are NaN
afterwards.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import fft
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from tests.cuda_twin.libraries import lapack
from tests.cuda_twin.libraries.convolutions import convolve, views
from xla_contract.types.element_type import ElementType
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import (
    ALIGNMENT,
    WORKSPACE_ALIGNMENT,
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    Matrix,
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
from xla_server.target.gpu.convolution import Direction
from xla_server.target.gpu.epilogue import Activation, Epilogue

FILL = 0xFF


def compute(plan: LibraryPlan, addresses: Sequence[int]) -> None:
    """Compute a plan on its buffers.

    Raises:
        ValueError: No library computes the plan, or a buffer is not aligned.
    """
    if plan.problem is not None:
        raise ValueError(f"{plan.text}: {plan.problem}")
    for address in addresses:
        if address % ALIGNMENT:
            raise ValueError(f"{plan.text}: buffers must be aligned, got {address:#x}")
    match plan:
        case GemmPlan():
            _product(plan, *addresses)
        case ConvolutionPlan():
            _convolve(plan, *addresses)
        case TriangularSolvePlan():
            _solve(plan, *addresses)
        case CholeskyPlan():
            _factor(plan, *addresses)
        case FftPlan():
            _transform(plan, *addresses)
        case SolverPlan():
            _call(plan, addresses)
        case _:
            raise ValueError(f"no library computes {plan.text}")


def _memory(address: int, dtype: Any, count: int) -> Any:
    """Return so many elements from an address on."""
    byte_size = count * np.dtype(dtype).itemsize
    raw = (ctypes.c_byte * byte_size).from_address(address)
    return np.frombuffer(raw, np.uint8).view(dtype)


def _matrices(address: int, matrix: Matrix, batch: int, rows: int, columns: int) -> Any:
    """Return the matrices of an operand as [batch, rows, columns]."""
    if matrix.is_transposed:
        rows, columns = columns, rows
    count = (batch - 1) * matrix.apart + (rows - 1) * matrix.ahead + columns
    numbers, width = _memory(address, matrix.element.dtype, count), matrix.element.byte_width
    strides = matrix.apart * width, matrix.ahead * width, width
    found = as_strided(numbers, (batch, rows, columns), strides)
    return found.swapaxes(1, 2) if matrix.is_transposed else found


def _product(plan: GemmPlan, left: int, right: int, *others: int) -> None:
    *given, result, memory = others
    assert plan.sums is not None
    sums, batch = plan.sums.dtype, plan.batch
    _fill_workspace(plan, memory)
    lhs = _matrices(left, plan.left, batch, plan.rows, plan.depth).astype(sums)
    rhs = _matrices(right, plan.right, batch, plan.depth, plan.columns).astype(sums)
    written = _matrices(result, plan.result, batch, plan.rows, plan.columns)
    with np.errstate(all="ignore"):
        found = plan.epilogue.scale * np.matmul(lhs, rhs)
        if plan.epilogue.weight:
            addend = _matrices(given[0], plan.result, batch, plan.rows, plan.columns)
            found += plan.epilogue.weight * addend.astype(sums)
        if plan.epilogue.has_bias:
            found += _memory(given[-1], plan.result.element.dtype, plan.columns).astype(sums)
        written[:] = _activated(plan.epilogue, found).astype(plan.result.element.dtype)


def _fill_workspace(plan: LibraryPlan, memory: int) -> None:
    workspace = -(-memory // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
    ctypes.memset(workspace, FILL, plan.workspace_bytes)


WRITTEN = {Direction.DATA_GRADIENT: 0, Direction.FILTER_GRADIENT: 1, Direction.FORWARD: 2}
"""The number, among x, w and y, of the array that a convolution gives."""


def _convolve(plan: ConvolutionPlan, first: int, second: int, result: int, memory: int) -> None:
    _fill_workspace(plan, memory)
    form, places = plan.convolution, [first, second]
    places.insert(WRITTEN[form.direction], result)
    x, w, y = (
        _memory(address, form.element.dtype, math.prod(sizes))
        for address, sizes in zip(places, form.sizes, strict=True)
    )
    with np.errstate(all="ignore"):
        convolve(form, views(form, (x, w, y)))


def _activated(epilogue: Epilogue, x: Any) -> Any:
    match epilogue.activation:
        case Activation.RELU:
            return np.fmax(x, 0)
        case Activation.GELU:
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x


def _square(address: int, element: ElementType, rows: int, columns: int) -> Any:
    return _memory(address, element.dtype, rows * columns).reshape(rows, columns)


def _solve(plan: TriangularSolvePlan, matrix: int, right: int, table: int = 0) -> None:
    places = np.array([matrix, right])
    if plan.batch > 1:
        places = _memory(table, np.int64, 2 * plan.batch)
    for left, other in places.reshape(2, plan.batch).T.tolist():
        a = _square(left, plan.element, plan.order, plan.order)
        b = _square(other, plan.element, plan.rows, plan.columns)
        (trsm,) = get_blas_funcs(("trsm",), (a, b))
        side, lower, unit = int(not plan.is_left), int(plan.is_lower), int(plan.is_unit)
        form = "NTC".index(plan.transpose)
        b[:] = trsm(1, a, b, side=side, lower=lower, trans_a=form, diag=unit)


def _factor(plan: CholeskyPlan, matrices: int, status: int, table: int = 0) -> None:
    places = [matrices]
    if plan.batch > 1:
        places = _memory(table, np.int64, plan.batch).tolist()
    found = _memory(status, np.int32, plan.batch)
    for number, place in enumerate(places):
        a = _square(place, plan.element, plan.order, plan.order)
        (potrf,) = get_lapack_funcs(("potrf",), (a,))
        factor, found[number] = potrf(a, lower=int(plan.is_lower), clean=0)
        is_kept = np.tri(plan.order, dtype=np.bool_)
        np.copyto(a, factor, where=is_kept if plan.is_lower else is_kept.T)


def _transform(plan: FftPlan, source: int, target: int) -> None:
    real = plan.element.real_component
    types = (real, plan.element) if plan.is_real else (plan.element, plan.element)
    sizes = plan.sizes, plan.complex_sizes
    if plan.is_inverse:
        types, sizes = types[::-1], sizes[::-1]
    read, written = (
        _memory(address, element.dtype, plan.batch * math.prod(part) * plan.inner).reshape(
            plan.batch, *part, plan.inner
        )
        for address, element, part in zip((source, target), types, sizes, strict=True)
    )
    axes = tuple(range(1, 1 + len(plan.sizes)))
    if not plan.is_real:
        written[:] = (fft.ifftn if plan.is_inverse else fft.fftn)(read, axes=axes, **_form(plan))
    elif not plan.is_inverse:
        written[:] = fft.rfftn(read, axes=axes)
    else:
        ends = (0, plan.sizes[0] // 2) if plan.sizes[0] % 2 == 0 else (0,)
        if read[:, ends].imag.any():
            raise ValueError(f"{plan.text}: the ends of spectra must be real")
        written[:] = fft.irfft(read, plan.sizes[0], axis=1, norm="forward")
        ctypes.memset(source, FILL, read.nbytes)


def _form(plan: FftPlan) -> dict[str, str]:
    """Return what leaves out the factor of inverse transforms."""
    return {"norm": "forward"} if plan.is_inverse else {}


def _call(plan: SolverPlan, addresses: Sequence[int]) -> None:
    """Call a routine for each matrix of a batch: at its address, or one behind the other."""
    batch = plan.batch
    *tables, _ = (*addresses[len(plan.parts) :], 0)
    places = np.array(
        [
            [address + number * count * element.byte_width for number in range(batch)]
            for address, (element, count) in zip(addresses, plan.parts, strict=False)
        ]
    )
    for table in tables:
        places[: plan.tables] = _memory(table, np.int64, plan.tables * batch).reshape(-1, batch)
    for given in places.T.tolist():
        *parts, status = (
            _memory(place, element.dtype, count)
            for place, (element, count) in zip(given, plan.parts, strict=True)
        )
        status[0] = _called(plan, *parts)


def _turned(numbers: Any, rows: int, columns: int) -> Any:
    """Return a column-major matrix."""
    return numbers.reshape(columns, rows).T


def _called(plan: SolverPlan, first: Any, second: Any, *more: Any) -> int:
    match plan:
        case LuPlan():
            return lapack.getrf(_turned(first, plan.rows, plan.columns), second)
        case QrPlan():
            return lapack.geqrf(_turned(first, plan.rows, plan.columns), second)
        case ReflectorsPlan():
            return lapack.orgqr(_turned(first, plan.rows, plan.columns), second)
        case ReflectedPlan():
            adjoint = "C" if plan.element.is_complex else "T"
            forms = "L" if plan.is_left else "R", adjoint if plan.is_adjoint else "N"
            reflectors = _turned(first, plan.order, plan.count)
            return lapack.ormqr(
                *forms, reflectors, second, _turned(more[0], plan.rows, plan.columns)
            )
        case EigenPlan():
            forms = "V" if plan.has_vectors else "N", "L" if plan.is_lower else "U"
            return lapack.syevd(*forms, _turned(first, plan.order, plan.order), second)
        case SingularPlan():
            mode = "N" if not plan.left else "A" if plan.left == plan.rows else "S"
            sizes = (plan.rows, plan.left), (plan.columns, plan.columns)
            vectors = [_turned(each, *pair) for each, pair in zip(more, sizes, strict=False)]
            matrix = _turned(first, plan.rows, plan.columns)
            info = lapack.gesvd(mode, matrix, second, *vectors)
            if plan.is_batched and vectors:
                vectors[1][:] = vectors[1].conj().T.copy()
            return info
    raise ValueError(f"no library computes {plan.text}")
