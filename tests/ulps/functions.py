"""The elementary functions of kernels, called alone, and what they should give.

References are numpy's and scipy's in more precision: f64 for f32 and what is narrower, x87's 80
bits for f64.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel import Kernels, LoadedKernel
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Expression, Load, Role
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE

Array = Any
DTYPE: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
WIDER: dict[str, Any] = {
    "f16": np.float64,
    "bf16": np.float64,
    "f32": np.float64,
    "f64": np.longdouble,
}
BINARY = ("atan2", "pow", "rem")
OPERATIONS = ("rem", "sqrt")
"""Operations of the processor or the C library; their kernel functions take every type."""


def erf(x: Array) -> Array:
    """scipy's for f64; for more precision the series of positive terms."""
    if x.dtype != np.longdouble:
        return special.erf(x)
    square = np.minimum(x * x, np.longdouble(45))
    term = total = np.ones_like(x)
    for k in range(1, 220):
        term = term * (2 * square) / (2 * k + 1)
        total = total + term
    scale = 2 / np.sqrt(4 * np.arctan(np.longdouble(1)))
    return np.where(np.abs(x) > 6.5, np.sign(x), scale * x * np.exp(-square) * total)


def logistic(x: Array) -> Array:
    """The formula of the definition, which is zero where e^-x is infinite in the narrower type."""
    largest = np.finfo(np.float32 if x.dtype == np.float64 else np.float64).max
    falling = np.exp(-x)
    return np.where(falling > x.dtype.type(largest), 0, 1) / (1 + falling)


REFERENCE: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": logistic,
    "pow": np.power,
    "rem": np.fmod,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x)),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def exact(function: str, name: str, *operands: Array) -> Array:
    """The reference's results, in a type with many more digits."""
    with np.errstate(all="ignore"):
        return REFERENCE[function](*(operand.astype(WIDER[name]) for operand in operands))


def _converted(function: str | None, value: Expression, kind: str) -> Expression:
    """Return a value of a type by a conversion; as it is where there is nothing to convert."""
    return value if function is None else Apply(function, (value,), Type(kind))


def loop(function: str, name: str) -> Kernel:
    """A loop over buffers that calls a function for every element."""
    kind = KERNEL_TYPE[_ELEMENT[name]]
    operands = range(2 if function in BINARY else 1)
    buffers = [Buffer(k, Role.READ) for k in operands]
    result = Buffer(len(operands), Role.WRITE)
    name = function if function in OPERATIONS else f"{function}_{kind.computed}"
    kernel = Body()
    with Items(kernel, 1) as items:
        loads = [Load(buffer, Type(kind.storage), items.axis) for buffer in buffers]
        given = tuple(_converted(kind.widen, load, kind.computed) for load in loads)
        value = Apply(name, given, Type(kind.computed))
        items.store(result, kind.storage, items.axis, _converted(kind.narrow, value, kind.storage))
    return Kernel((*buffers, result), (), tuple(kernel.statements))


_KERNELS = Kernels()
_ELEMENT = {kind.text: kind for kind in ElementType if kind.text in DTYPE}


@functools.cache
def kernel(function: str, name: str) -> LoadedKernel:
    """The loop, compiled."""
    return _KERNELS.get(loop(function, name))


def computed(function: str, *operands: Array) -> Array:
    """The results of a function by its kernel; subnormal numbers are not taken for zero."""
    name = ElementType.from_dtype(operands[0].dtype).text
    address = kernel(function, name).address
    kept = [np.ascontiguousarray(operand) for operand in operands]
    result = np.empty_like(kept[0])
    table = np.array([array.ctypes.data for array in (*kept, result)], np.int64)
    # numba's calling convention: room for a result and for an exception, which kernels leave.
    room = np.zeros(2, np.int64)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(address)
    call(room.ctypes.data, room.ctypes.data + 8, table.ctypes.data, 0, result.size)
    return result
