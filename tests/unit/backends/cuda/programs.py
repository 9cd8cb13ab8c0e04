"""Code with thunks for the device, for libraries and for the host, made by hand."""

from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Code, CopyThunk, HostThunk, KernelThunk, Thunk, Value
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import FftPlan
from xla_server.codegen.kernel_ir.expressions import Buffer, Usage
from xla_server.codegen.kernel_ir.expressions import Value as Name
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import ParallelFor
from xla_server.codegen.kernel_ir.types import Type
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ops.random.rng_get_and_update_state import RandomStates
from xla_server.runtime.host import HostRun

PLAN = FftPlan(ElementType.C64, 1, (4,), is_inverse=False)
"""A plan, of which nothing here is computed."""


def value(name: str, shape: str = "f32[4]") -> Value:
    return Value(Shape.parse(shape), name)


def grid(items: int = 4, *accessed: int) -> GridKernel:
    """A kernel that does nothing, with buffers of these numbers."""
    buffers = tuple(Buffer(number, Usage.READ) for number in accessed)
    return GridKernel(Kernel(buffers, (), (ParallelFor(Name("t", Type.I64), items, ()),)))


def launch(target: Value, *sources: Value, items: int = 4) -> KernelThunk:
    """A kernel on the device."""
    given = (*sources, target)
    kernel = grid(items, *range(len(given)))
    return KernelThunk(f"launch_{target.name}", kernel, items, 1, given, sources, (target,))


def library(target: Value, source: Value) -> KernelThunk:
    """A library on the device."""
    return KernelThunk("library", PLAN, 1, 1, (source, target), (source,), (target,))


def python(target: Value, *sources: Value, add: float = 1.0) -> HostThunk:
    """The sum of arrays and a number, by Python."""

    def call(_: Any, arrays: Any) -> list[Any]:
        return [np.sum(arrays, axis=0, dtype=np.float32) + np.float32(add)]

    return HostThunk(f"python_{target.name}", call, sources, (target,))


def updated(target: Value, add: float = 1.0) -> HostThunk:
    """A value written over by Python."""
    return python(target, target, add=add)


def copy(target: Value, source: Value) -> CopyThunk:
    return CopyThunk(target, source)


def code(thunks: list[Thunk], parameters: list[Value], results: list[Value], **more: Any) -> Code:
    return Code(thunks, parameters, more.pop("constants", {}), results, **more)


def host_run(options: ExecuteOptions) -> HostRun:
    """A run as thunks of Python have it."""
    return HostRun(options=options, random_states=RandomStates())
