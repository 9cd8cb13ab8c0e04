"""Calls of one kernel function for every element of arrays."""

import ctypes
from typing import Any

import numpy as np

from tests.kept_kernels import kept_kernels
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Load, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type

_KERNELS = kept_kernels()
_NAMES = {"bool": "b1", "float": "f", "uint": "u", "int": "i", "complex": "c"}


def type_of(dtype: Any) -> str:
    """Return the name of a type in kernels: i32 of int32."""
    name = np.dtype(dtype).name
    kind = name.rstrip("0123456789")
    return _NAMES[kind] + name[len(kind) :]


def called(function: str, result: Any, *operands: Any) -> Any:
    """Return the results, of a type of numpy's, of a function of kernels."""
    kernel, out = Body(), np.empty(operands[0].shape, result)
    buffers = [Buffer(number, Usage.READ) for number in range(len(operands))]
    target = Buffer(len(operands), Usage.WRITE)
    kind = type_of(result)
    with Items(kernel, 1 << 30) as items:
        given = tuple(
            Load(buffer, Type(type_of(each.dtype)), items.axis)
            for buffer, each in zip(buffers, operands, strict=True)
        )
        items.store(target, kind, items.axis, Apply(function, given, Type(kind)))
    loaded = _KERNELS.get(Kernel((*buffers, target), (), tuple(kernel.statements)))
    table = np.array([array.ctypes.data for array in (*operands, out)], np.int64)
    unused = np.zeros(2, np.int64)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(loaded.address)
    call(unused.ctypes.data, unused.ctypes.data + 8, table.ctypes.data, 0, out.size)
    return out
