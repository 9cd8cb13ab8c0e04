"""cuBLASLt: what is used of it. Attributes are memory of the sizes that the library states."""

import dataclasses
import enum
import itertools
from typing import Any

import ml_dtypes
import numpy as np

from tests.cuda_twin.bindings.cublas import ComputeType, Operation
from tests.cuda_twin.bindings.memory import elements, matrix, scalar


class cuBLASLtError(Exception):  # noqa: N801
    """A call failed."""


class ReductionScheme(enum.IntEnum):
    """cublasLtReductionScheme_t."""

    NONE = 0
    INPLACE = 1
    COMPUTE_TYPE = 2
    OUTPUT_TYPE = 4


class MatmulDescAttribute(enum.IntEnum):
    """cublasLtMatmulDescAttributes_t."""

    TRANSA = 3
    TRANSB = 4
    EPILOGUE = 7
    BIAS_POINTER = 8


class Epilogue(enum.IntEnum):
    """cublasLtEpilogue_t."""

    DEFAULT = 1
    RELU = 2
    BIAS = 4
    RELU_BIAS = 6
    GELU = 32
    GELU_BIAS = 36


class MatrixLayoutAttribute(enum.IntEnum):
    """cublasLtMatrixLayoutAttribute_t."""

    BATCH_COUNT = 5
    STRIDED_BATCH_OFFSET = 6


class MatmulPreferenceAttribute(enum.IntEnum):
    """cublasLtMatmulPreferenceAttributes_t."""

    MAX_WORKSPACE_BYTES = 1
    REDUCTION_SCHEME_MASK = 3
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


_DATA_TYPES: dict[int, Any] = {
    0: np.float32,
    1: np.float64,
    2: np.float16,
    3: np.int8,
    4: np.complex64,
    5: np.complex128,
    10: np.int32,
    14: ml_dtypes.bfloat16,
}
"""cudaDataType_t."""

_SCALES = {
    ComputeType.COMPUTE_32F: (np.float32, np.complex64),
    ComputeType.COMPUTE_32F_FAST_TF32: (np.float32, np.complex64),
    ComputeType.COMPUTE_64F: (np.float64, np.complex128),
    ComputeType.COMPUTE_32I: (np.int32,),
}
"""Types of factors by type of computation: cublasLtMatmul, the table of types."""

WORKSPACE = 64
"""Bytes of the workspace that an algorithm uses, if it may."""


@dataclasses.dataclass(slots=True)
class _Description:
    """A description, its attributes by their numbers."""

    given: tuple[int, ...]
    attributes: dict[int, int] = dataclasses.field(default_factory=dict)


_numbers = itertools.count(1)
descriptions: dict[int, _Description] = {}
"""Those that are not destroyed."""


def create() -> int:
    """Return a handle."""
    return next(_numbers)


def _created(*given: int) -> int:
    number = next(_numbers)
    descriptions[number] = _Description(given)
    return number


def matmul_desc_create(compute_type: int, scale_type: int) -> int:
    """Return the description of an operation."""
    assert _DATA_TYPES[scale_type] in _SCALES[ComputeType(compute_type)]
    return _created(compute_type, scale_type)


def matrix_layout_create(type: int, rows: int, cols: int, ld: int) -> int:
    """Return the description of a matrix."""
    return _created(type, rows, cols, ld)


def matmul_preference_create() -> int:
    """Return the description of wishes."""
    return _created()


def _destroyed(number: int) -> None:
    del descriptions[number]


matmul_desc_destroy = matrix_layout_destroy = matmul_preference_destroy = _destroyed


def get_matmul_desc_attribute_dtype(attr: int) -> Any:
    """Return the type of an operation's attribute."""
    return np.int64 if attr == MatmulDescAttribute.BIAS_POINTER else np.int32


def get_matrix_layout_attribute_dtype(attr: int) -> Any:
    """Return the type of a matrix's attribute."""
    is_count = attr == MatrixLayoutAttribute.BATCH_COUNT
    return np.int32 if is_count else np.int64


def get_matmul_preference_attribute_dtype(attr: int) -> Any:
    """Return the type of a wish."""
    is_bytes = attr == MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
    return np.uint64 if is_bytes else np.uint32


def _setter(type_of: Any) -> Any:
    def set_attribute(description: int, attr: int, buf: int, size_in_bytes: int) -> None:
        dtype = np.dtype(type_of(attr))
        assert size_in_bytes == dtype.itemsize
        descriptions[description].attributes[attr] = int(scalar(buf, dtype))

    return set_attribute


matmul_desc_set_attribute = _setter(get_matmul_desc_attribute_dtype)
matrix_layout_set_attribute = _setter(get_matrix_layout_attribute_dtype)
matmul_preference_set_attribute = _setter(get_matmul_preference_attribute_dtype)


class MatmulHeuristicResult:
    """cublasLtMatmulHeuristicResult_t: the algorithm in front."""

    def __init__(self, size: int = 1) -> None:
        self._numbers = np.zeros(12 * size, np.int64)

    @property
    def ptr(self) -> int:
        """Where it is."""
        return int(self._numbers.ctypes.data)


def matmul_algo_get_heuristic(
    light_handle: int,
    operation_desc: int,
    adesc: int,
    bdesc: int,
    cdesc: int,
    ddesc: int,
    preference: int,
    requested_algo_count: int,
    heuristic_results_array: int,
    return_algo_count: int,
) -> None:
    """Choose an algorithm: a number made of the operation, and the workspace that it uses."""
    assert requested_algo_count == 1
    wishes = descriptions[preference].attributes
    bias = descriptions[operation_desc].attributes.get(MatmulDescAttribute.BIAS_POINTER, 0)
    assert bias % 16 == 0
    assert not wishes[MatmulPreferenceAttribute.REDUCTION_SCHEME_MASK] & ReductionScheme.INPLACE
    most = wishes[MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES]
    found = elements(heuristic_results_array, np.int64, 9)
    found[0], found[1], found[8] = operation_desc, min(WORKSPACE, most), min(WORKSPACE, most)
    elements(return_algo_count, np.int32, 1)[0] = 1


def _operand(address: int, description: int, form: Operation) -> list[Any]:
    """Return the matrices of an operand."""
    type, rows, columns, ahead = descriptions[description].given
    attributes = descriptions[description].attributes
    count = attributes.get(MatrixLayoutAttribute.BATCH_COUNT, 1)
    apart = attributes.get(MatrixLayoutAttribute.STRIDED_BATCH_OFFSET, 0)
    dtype = np.dtype(_DATA_TYPES[type])
    found = [
        matrix(address + number * apart * dtype.itemsize, dtype, rows, columns, ahead)
        for number in range(count)
    ]
    return [each.T if form is Operation.T else each for each in found]


def matmul(
    light_handle: int,
    compute_desc: int,
    alpha: int,
    a: int,
    adesc: int,
    b: int,
    bdesc: int,
    beta: int,
    c: int,
    cdesc: int,
    d: int,
    ddesc: int,
    algo: int,
    workspace: int,
    workspace_size_in_bytes: int,
    stream: int,
) -> None:
    """Compute d = alpha op(a) op(b) + beta c."""
    chosen, used = (int(number) for number in elements(algo, np.int64, 2))
    assert chosen == compute_desc
    assert workspace % 256 == 0
    assert used <= workspace_size_in_bytes
    elements(workspace, np.uint8, workspace_size_in_bytes)[:] = 0xFF
    operation = descriptions[compute_desc]
    sums = _DATA_TYPES[operation.given[1]]
    forms = (
        Operation(operation.attributes[attribute])
        for attribute in (MatmulDescAttribute.TRANSA, MatmulDescAttribute.TRANSB)
    )
    lefts, rights = (
        _operand(place, description, form)
        for (place, description), form in zip(((a, adesc), (b, bdesc)), forms, strict=True)
    )
    results, addends = (_operand(place, ddesc, Operation.N) for place in (d, c))
    assert ddesc == cdesc
    kind = operation.attributes.get(MatmulDescAttribute.EPILOGUE, Epilogue.DEFAULT)
    for left, right, addend, result in zip(lefts, rights, addends, results, strict=True):
        product = scalar(alpha, sums) * (left.astype(sums) @ right.astype(sums))
        if scalar(beta, sums):
            product += scalar(beta, sums) * addend.astype(sums)
        if kind & Epilogue.BIAS:
            place = operation.attributes[MatmulDescAttribute.BIAS_POINTER]
            # One for each row of a matrix whose columns are dense.
            product += elements(place, result.dtype, len(result))[:, None].astype(sums)
        if kind & Epilogue.RELU:
            product = np.fmax(product, 0)
        if kind & Epilogue.GELU:
            inner = np.sqrt(2 / np.pi) * (product + 0.044715 * product**3)
            product = 0.5 * product * (1 + np.tanh(inner))
        result[:] = product.astype(result.dtype)
