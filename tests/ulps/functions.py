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

from tests.elementwise_operations import OPERATIONS as OPERATED
from tests.kept_kernels import kept_kernels
from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel import LoadedKernel
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Expression, Load, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ops.elementwise.elementwise_table import ROWS

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


_KERNELS_OF = {ROWS[opcode].kernel: opcode for opcode in OPERATED}
REFERENCE: dict[str, Callable[..., Array]] = {
    kernel: function
    for kernel, opcode in sorted(_KERNELS_OF.items())
    if (function := OPERATED[opcode].real) is not None
    and (ROWS[opcode].ulps is not None or kernel in OPERATIONS)
}
"""The exact functions, by the names of kernel functions."""


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
    buffers = [Buffer(k, Usage.READ) for k in operands]
    result = Buffer(len(operands), Usage.WRITE)
    name = function if function in OPERATIONS else f"{function}_{kind.computed}"
    kernel = Body()
    with Items(kernel, 1 << 30) as items:
        loads = [Load(buffer, Type(kind.storage), items.axis) for buffer in buffers]
        given = tuple(_converted(kind.widen, load, kind.computed) for load in loads)
        value = Apply(name, given, Type(kind.computed))
        items.store(result, kind.storage, items.axis, _converted(kind.narrow, value, kind.storage))
    return Kernel((*buffers, result), (), tuple(kernel.statements))


_KERNELS = kept_kernels()
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
    # numba's calling convention: addresses of a result and an exception, never written by kernels.
    unused = np.zeros(2, np.int64)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(address)
    call(unused.ctypes.data, unused.ctypes.data + 8, table.ctypes.data, 0, result.size)
    return result
