"""Products of matrices by cuBLASLt.

The library is column-major: a row-major matrix is its transposed there. So it computes the
transposed result, the product of both operands exchanged. The algorithm is the first choice of the
library's heuristic, without autotuning. Partial sums are added in a fixed order, so that results
have the same bits every time.

Semantics: the cuBLAS library's documentation, cublasLtMatmul.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from nvmath.bindings import cublas, cublasLt

from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.worker.libraries.library import Libraries, LibraryError
from xla_server.codegen.gpu.plans.library_plans import (
    ALIGNMENT,
    WORKSPACE_ALIGNMENT,
    GemmPlan,
    Matrix,
)
from xla_server.target.gpu.epilogue import NO_EPILOGUE, Activation

DATA_TYPES: Mapping[ElementType, int] = MappingProxyType(
    {
        ElementType.F32: 0,
        ElementType.F64: 1,
        ElementType.F16: 2,
        ElementType.S8: 3,
        ElementType.C64: 4,
        ElementType.C128: 5,
        ElementType.S32: 10,
        ElementType.BF16: 14,
    }
)
"""Element types by cudaDataType_t, library_types.h."""

_COMPUTE = {
    ElementType.F32: cublas.ComputeType.COMPUTE_32F,
    ElementType.C64: cublas.ComputeType.COMPUTE_32F,
    ElementType.F64: cublas.ComputeType.COMPUTE_64F,
    ElementType.C128: cublas.ComputeType.COMPUTE_64F,
    ElementType.S32: cublas.ComputeType.COMPUTE_32I,
}

_EPILOGUES = {
    (Activation.NONE, False): cublasLt.Epilogue.DEFAULT,
    (Activation.NONE, True): cublasLt.Epilogue.BIAS,
    (Activation.RELU, False): cublasLt.Epilogue.RELU,
    (Activation.RELU, True): cublasLt.Epilogue.RELU_BIAS,
    (Activation.GELU, False): cublasLt.Epilogue.GELU,
    (Activation.GELU, True): cublasLt.Epilogue.GELU_BIAS,
}
"""Epilogues by activation, without and with a bias."""

_ORDERED_SUMS = cublasLt.ReductionScheme.COMPUTE_TYPE | cublasLt.ReductionScheme.OUTPUT_TYPE
"""Schemes that store partial sums separately and add them in a fixed order."""


def _created(_: int) -> int:
    """Return a handle, which may be used in any thread and stream."""
    handle: int = cublasLt.create()
    return handle


class PreparedProduct:
    """A product with its algorithm and descriptions. Raises LibraryError without an algorithm."""

    def __init__(self, libraries: Libraries, plan: GemmPlan) -> None:
        assert plan.sums is not None
        self._owned = contextlib.ExitStack()
        self._handle, self._plan = libraries.handle(_created), plan
        compute = _COMPUTE[plan.sums]
        if plan.rounds_operands:
            compute = cublas.ComputeType.COMPUTE_32F_FAST_TF32
        self._operation = cublasLt.matmul_desc_create(int(compute), DATA_TYPES[plan.sums])
        self._owned.callback(cublasLt.matmul_desc_destroy, self._operation)
        self._describe = describe = _Setter(
            self._operation,
            cublasLt.matmul_desc_set_attribute,
            cublasLt.get_matmul_desc_attribute_dtype,
        )
        attribute = cublasLt.MatmulDescAttribute
        for which, matrix in ((attribute.TRANSA, plan.right), (attribute.TRANSB, plan.left)):
            form = cublas.Operation.T if matrix.is_transposed else cublas.Operation.N
            describe(which, int(form))
        rows, columns, depth = plan.rows, plan.columns, plan.depth
        self._right = self._layout(plan.right, depth, columns)
        self._left = self._layout(plan.left, rows, depth)
        self._result = self._layout(plan.result, rows, columns)
        if plan.epilogue != NO_EPILOGUE:
            kind = _EPILOGUES[plan.epilogue.activation, plan.epilogue.has_bias]
            describe(attribute.EPILOGUE, int(kind))
        # The heuristic depends on the alignment of the bias.
        if plan.epilogue.has_bias:
            describe(attribute.BIAS_POINTER, ALIGNMENT)
        # A description has one bias at a time.
        self._turns = threading.Lock()
        scale = plan.sums.dtype
        self._scale = np.full(1, plan.epilogue.scale, scale)
        self._weight = np.full(1, plan.epilogue.weight, scale)
        self._algorithm = self._chosen()

    def _layout(self, matrix: Matrix, rows: int, columns: int) -> int:
        """Describe an operand of these sizes; the library has its rows as columns."""
        if matrix.is_transposed:
            rows, columns = columns, rows
        layout: int = cublasLt.matrix_layout_create(
            DATA_TYPES[matrix.element], columns, rows, matrix.ahead
        )
        self._owned.callback(cublasLt.matrix_layout_destroy, layout)
        describe = _Setter(
            layout,
            cublasLt.matrix_layout_set_attribute,
            cublasLt.get_matrix_layout_attribute_dtype,
        )
        if self._plan.batch > 1:
            describe(cublasLt.MatrixLayoutAttribute.BATCH_COUNT, self._plan.batch)
            describe(cublasLt.MatrixLayoutAttribute.STRIDED_BATCH_OFFSET, matrix.apart)
        return layout

    def _chosen(self) -> Any:
        attribute = cublasLt.MatmulPreferenceAttribute
        wishes = {
            attribute.MAX_WORKSPACE_BYTES: self._plan.workspace_bytes,
            attribute.REDUCTION_SCHEME_MASK: int(_ORDERED_SUMS),
            attribute.MIN_ALIGNMENT_A_BYTES: ALIGNMENT,
            attribute.MIN_ALIGNMENT_B_BYTES: ALIGNMENT,
            attribute.MIN_ALIGNMENT_C_BYTES: ALIGNMENT,
            attribute.MIN_ALIGNMENT_D_BYTES: ALIGNMENT,
        }
        found, count = cublasLt.MatmulHeuristicResult(1), np.zeros(1, np.int32)
        preference = cublasLt.matmul_preference_create()
        try:
            wish = _Setter(
                preference,
                cublasLt.matmul_preference_set_attribute,
                cublasLt.get_matmul_preference_attribute_dtype,
            )
            for which, value in wishes.items():
                wish(which, value)
            cublasLt.matmul_algo_get_heuristic(
                self._handle,
                self._operation,
                self._right,
                self._left,
                self._result,
                self._result,
                preference,
                1,
                found.ptr,
                count.ctypes.data,
            )
        except cublasLt.cuBLASLtError as error:
            raise LibraryError(f"{self._plan.text}: {error}") from error
        finally:
            cublasLt.matmul_preference_destroy(preference)
        if not count[0]:
            raise LibraryError(f"{self._plan.text}: cuBLASLt has no algorithm")
        return found

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the product to a stream."""
        left, right, *others, result, memory = addresses
        addend = others[0] if self._plan.epilogue.weight else result
        with self._turns:
            if self._plan.epilogue.has_bias:
                self._describe(cublasLt.MatmulDescAttribute.BIAS_POINTER, others[-1])
            cublasLt.matmul(
                self._handle,
                self._operation,
                self._scale.ctypes.data,
                right,
                self._right,
                left,
                self._left,
                self._weight.ctypes.data,
                addend,
                self._result,
                result,
                self._result,
                # The algorithm is the first field of the heuristic's result.
                self._algorithm.ptr,
                -(-memory // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT,
                self._plan.workspace_bytes,
                stream,
            )

    def __del__(self) -> None:
        self._owned.close()


@dataclasses.dataclass(frozen=True, slots=True)
class _Setter:
    """Sets attributes of one description, each as a number of its type."""

    description: int
    set_attribute: Callable[..., None]
    type_of: Callable[[int], Any]

    def __call__(self, attribute: int, value: int) -> None:
        """Set an attribute."""
        number = np.array([value], self.type_of(attribute))
        self.set_attribute(self.description, attribute, number.ctypes.data, number.nbytes)
