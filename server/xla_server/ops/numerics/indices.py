"""Arithmetic on the index arrays of gather and scatter."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from xla_server.ops.evaluation import Array

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)


def index_vectors(indices: Array, index_vector_dim: int) -> Indices:
    """The index vectors along the last dimension, as s64.

    Indices above the largest s64 become that, which is out of range, too.
    """
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    wide = indices.astype(np.int64)
    if index_vector_dim == wide.ndim:
        return wide[..., None]
    return np.moveaxis(wide, index_vector_dim, -1)


def batching_index(
    dimension: int, index_vector_dim: int, size: int, batch_dims: Sequence[int], rank: int
) -> Indices:
    """The position along a batching dimension of the indices, spread over a result of `rank`.

    `batch_dims` are the result's dimensions that the indices without their vectors became.
    """
    position = dimension - (1 if index_vector_dim < dimension else 0)
    return spread(np.arange(size), (batch_dims[position],), rank)


def spread(array: "NDArray[T]", dimensions: Sequence[int], rank: int) -> "NDArray[T]":
    """The array with its dimensions at these of `rank`, and 1 elsewhere."""
    order = sorted(range(array.ndim), key=dimensions.__getitem__)
    shape: Any = [1] * rank
    for number, size in zip(dimensions, array.shape, strict=True):
        shape[number] = size
    return array.transpose(order).reshape(shape)
