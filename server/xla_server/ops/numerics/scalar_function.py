"""Recognition of computations on scalars that numpy has as one function."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation
from xla_server.ops.evaluation import Array, Value
from xla_server.ops.numerics.numeric import flushed
from xla_server.ops.numerics.total_order import from_total_order_key, total_order_key

UFUNC: Mapping[Opcode, np.ufunc] = {
    Opcode.ADD: np.add,
    Opcode.MULTIPLY: np.multiply,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.AND: np.bitwise_and,
    Opcode.OR: np.bitwise_or,
    Opcode.XOR: np.bitwise_xor,
}
"""The functions of commutative operations."""


@dataclasses.dataclass(frozen=True, slots=True)
class Combiner:
    """Reduction in numpy of elements of `dtype`: `ufunc` applied to what `to_keys` gives.

    Elements are combined in the type `wide`. Extremes of floats are those of integer keys, among
    which -0 is below 0, and NaN beyond all: numpy's own take either zero.
    """

    ufunc: np.ufunc
    dtype: "np.dtype[Any]"
    wide: "np.dtype[Any]"
    has_keys: bool

    def to_keys(self, array: Any) -> Array:
        """Return the keys that are combined instead of the elements of an array."""
        rounded = round_to(array, self.dtype)
        if not self.has_keys:
            return round_to(rounded, self.wide)
        floats = rounded.astype(f"f{self.wide.itemsize}", copy=False)
        keys = total_order_key(flushed(floats))
        ends = np.iinfo(keys.dtype)
        return np.where(np.isnan(floats), ends.max if self.ufunc is np.maximum else ends.min, keys)

    def from_keys(self, combined: Any) -> Array:
        """Return elements from combined ones."""
        if not self.has_keys:
            return round_to(combined, self.dtype)
        keys = np.asarray(combined)
        ends = np.iinfo(keys.dtype)
        floats = from_total_order_key(keys)
        is_nan = keys == (ends.max if self.ufunc is np.maximum else ends.min)
        return round_to(np.where(is_nan, floats.dtype.type(np.nan), floats), self.dtype)


def recognise(computation: HloComputation) -> Combiner | None:
    """Return numpy's reduction, if the root combines the two parameters and all types are equal.

    Only commutative operations are recognised.
    """
    opcode, parameters, root = plain_opcode(computation), computation.parameters, computation.root
    ufunc = None if opcode is None else UFUNC.get(opcode)
    if (
        ufunc is None
        or any(part.shape.element_type is not root.shape.element_type for part in parameters)
        or (root.shape.element_type.is_complex and ufunc in (np.maximum, np.minimum))
    ):
        return None
    dtype = root.shape.element_type.dtype
    has_keys = ufunc in (np.maximum, np.minimum) and root.shape.element_type.is_floating
    wide = np.dtype(f"i{max(dtype.itemsize, 4)}") if has_keys else accumulator_dtype(ufunc, dtype)
    return Combiner(ufunc, dtype, wide, has_keys)


def plain_opcode(computation: HloComputation) -> Opcode | None:
    """Return the opcode of a computation that is one operation on both of its parameters."""
    root, parameters = computation.root, computation.parameters
    is_plain = len(root.operands) == len(parameters) == 2
    return root.opcode if is_plain and set(root.operands) == set(parameters) else None


def takes_the_second(computation: HloComputation) -> bool:
    """Return whether the second of two parameters is the result and overwrites the first."""
    return len(computation.parameters) == 2 and computation.root is computation.parameters[1]


def accumulator_dtype(ufunc: np.ufunc, dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """The type in which many elements are combined before they are rounded once.

    Sums and products of floats up to 32 bits are kept in 64, so their order does not show.
    """
    # 2 for the types of ml_dtypes, which numpy combines one by one or not at all. Types of numpy
    # have 1, or 0 when they come out of unpickling or copying.
    if dtype.isbuiltin == 2:
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


def rounded_once(reducer: HloComputation, results: Sequence[Array]) -> tuple[Array, ...]:
    """Return what a widened reducer has accumulated, in the types of the reducer itself."""
    dtypes = parameter_dtypes(reducer)
    return tuple(round_to(result, dtype) for result, dtype in zip(results, dtypes, strict=False))


def as_arrays(value: Value) -> tuple[Array, ...]:
    """The arrays of a computation's result, which is one array or a flat tuple of them."""
    return cast(tuple[Array, ...], value) if isinstance(value, tuple) else (cast(Array, value),)


def one_or_tuple(arrays: Sequence[Array]) -> Value:
    """The only array, or the tuple of all: how variadic operations give their results."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def parameter_dtypes(computation: HloComputation) -> list["np.dtype[Any]"]:
    """The numpy types of a computation's parameters."""
    return [parameter.shape.element_type.dtype for parameter in computation.parameters]
