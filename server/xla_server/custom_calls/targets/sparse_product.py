"""cpu_csr_sparse_dense_ffi: a sparse matrix times a dense matrix or vector.

Semantics: jaxlib's target for processors, which JAX calls for a BCSR matrix. Operands are the
stored elements, where each row begins among them and the last one ends, their columns, and the
right operand, [columns] or [columns, n].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.errors import ShapeError
from xla_contract.ops.signature import listed
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.target import CustomCallTarget, require_result, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value

_INDICES = frozenset({ElementType.S32, ElementType.S64})
_ELEMENTS = _INDICES | {ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128}

_BLOCK = 1 << 18
"""Products that are computed before they are added: 1 MiB of f32."""


def check(instruction: HloInstruction) -> None:
    """[rows] or [rows, n], for elements and a right operand of one type."""
    shapes = static_operands(instruction)
    if not _fits(shapes):
        raise ShapeError(
            "a sparse product takes T[elements], I[rows + 1], I[elements] and T[columns] or "
            "T[columns,n], where T is s32, s64, f32, f64, c64 or c128 and I is s32 or s64, got "
            f"{listed(shapes)}"
        )
    _, starts, _, right = shapes
    dimensions = (starts.dimensions[0] - 1, *right.dimensions[1:])
    require_result(instruction, Shape.array(right.element_type, dimensions))


def _fits(shapes: Sequence[Shape]) -> bool:
    if len(shapes) != 4 or not all(shape.is_array for shape in shapes):
        return False
    data, starts, columns, right = shapes
    return (
        data.element_type == right.element_type
        and right.element_type in _ELEMENTS
        and starts.element_type == columns.element_type
        and columns.element_type in _INDICES
        and data.rank == 1
        and columns.dimensions == data.dimensions
        and starts.rank == 1
        and starts.dimensions[0] > 0
        and right.rank in (1, 2)
    )


def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Each row's products, added in the order in which its elements are stored.

    Columns that the right operand does not have count as 0. Rows that begin before the one above
    begin where that one ends.
    """
    arrays: Any = operands
    data, starts, columns, right = arrays
    ends = np.maximum.accumulate(np.clip(starts, 0, len(data)))
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    kept = np.arange(ends[0], ends[-1])
    inside = (columns[kept] >= 0) & (columns[kept] < len(right))
    rows, kept = rows[inside], kept[inside]
    result = np.zeros(instruction.shape.dimensions, right.dtype)
    count = max(1, _BLOCK // max(1, right[:1].size))
    width = (1,) * (right.ndim - 1)
    for first in range(0, len(kept), count):
        block = kept[first : first + count]
        factors = data[block].reshape(-1, *width)
        with np.errstate(all="ignore"):
            np.add.at(result, rows[first : first + count], factors * right[columns[block]])
    return result


TARGET = CustomCallTarget("cpu_csr_sparse_dense_ffi", evaluate, check)
