"""The evaluator of cholesky: LAPACK's factorisation, matrix by matrix."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.scalar_function import round_to


def evaluate_cholesky(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Cholesky factors, of the named triangle alone; NaN for a matrix without a factor."""
    attributes: CholeskyAttributes = instruction.attributes
    element = instruction.shape.element_type
    matrices: Any = round_to(cast(Array, operands[0]), lapack_dtype(element))
    lower = np.tril(matrices) if attributes.lower else _adjoint(np.triu(matrices))
    diagonal = np.eye(matrices.shape[-1], dtype=np.bool_)
    hermitian = np.where(diagonal, lower, lower + _adjoint(lower))
    factors = np.empty_like(hermitian)
    for position in np.ndindex(hermitian.shape[:-2]):
        frame.check_cancelled()
        try:
            factors[position] = np.linalg.cholesky(hermitian[position])
        except np.linalg.LinAlgError:
            factors[position] = np.nan
    # Not every LAPACK looks for NaN in its pivots: what it calls a factor may be unfinished.
    pivots = np.diagonal(factors, axis1=-2, axis2=-1)
    factors[np.isnan(pivots).any(axis=-1)] = np.nan
    return round_to(factors if attributes.lower else _adjoint(factors), element.dtype)


def lapack_dtype(element: ElementType) -> "np.dtype[Any]":
    """The type LAPACK works in for these elements: floats narrower than f32 are widened."""
    if element.is_complex or element is ElementType.F64:
        return element.dtype
    return np.dtype(np.float32)


def _adjoint(matrices: Any) -> Any:
    return np.conj(np.swapaxes(matrices, -1, -2))
