"""What a computation on scalars is, where numpy knows it by name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from xla_contract.opcode import Opcode
from xla_server.ir.module import HloComputation
from xla_server.ops.evaluation import Array, Value

_UFUNC: Mapping[Opcode, np.ufunc] = MappingProxyType(
    {
        Opcode.ADD: np.add,
        Opcode.MULTIPLY: np.multiply,
        Opcode.MAXIMUM: np.maximum,
        Opcode.MINIMUM: np.minimum,
        Opcode.AND: np.bitwise_and,
        Opcode.OR: np.bitwise_or,
    }
)


def recognise(computation: HloComputation) -> np.ufunc | None:
    """The ufunc a computation is, when its root combines its two parameters and all is one type.

    Only operations whose operands may change places are recognised.
    """
    ufunc = _UFUNC.get(computation.root.opcode)
    parameters, root = computation.parameters, computation.root
    if (
        ufunc is None
        or len(parameters) != 2
        or set(root.operands) != set(parameters)
        or any(part.shape.element_type is not root.shape.element_type for part in parameters)
        or (root.shape.element_type.is_complex and ufunc in (np.maximum, np.minimum))
    ):
        return None
    return ufunc


def takes_the_second(computation: HloComputation) -> bool:
    """Whether the computation gives its second of two parameters, which overwrites the first."""
    return len(computation.parameters) == 2 and computation.root is computation.parameters[1]


def accumulator_dtype(ufunc: np.ufunc, dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """The type in which many elements are combined before they are rounded once.

    Sums and products of floats up to 32 bits are kept in 64, so their order does not show.
    """
    if dtype.isbuiltin != 1:
        # The types of ml_dtypes, which numpy combines one by one or not at all.
        return np.dtype(np.int64 if np.can_cast(dtype, np.int64) else np.float64)
    if ufunc in (np.add, np.multiply):
        if dtype.kind == "f":
            return np.dtype(np.float64)
        if dtype.kind == "c":
            return np.dtype(np.complex128)
    return dtype


def round_to(array: Any, dtype: "np.dtype[Any]") -> Array:
    """The array in this type, which it has already or is rounded or wrapped to."""
    return cast(Array, np.asarray(array).astype(dtype, copy=False))


def as_arrays(value: Value) -> tuple[Array, ...]:
    """The arrays of a computation's result, which is one array or a flat tuple of them."""
    return cast(tuple[Array, ...], value) if isinstance(value, tuple) else (cast(Array, value),)


def one_or_tuple(arrays: Sequence[Array]) -> Value:
    """The only array, or the tuple of all: how variadic operations give their results."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def parameter_dtypes(computation: HloComputation) -> list["np.dtype[Any]"]:
    """The numpy types of a computation's parameters."""
    return [parameter.shape.element_type.dtype for parameter in computation.parameters]
