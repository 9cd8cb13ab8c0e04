"""Programs lowered for a GPU, their thunks executed one after the other: kernels on the twin, and
plans by what stands there for libraries.

Kernels of processors, which a platform executes on the host, are walked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.device.guarded import Guarded
from tests.cuda_twin.device.twin import DEVICE, Twin
from tests.cuda_twin.libraries.by_numpy import compute
from tests.example_platform.walker import run
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import (
    CANCELLATION,
    Branch,
    Code,
    CopyThunk,
    HostThunk,
    Jump,
    KernelThunk,
    Label,
    Switch,
    Thunk,
    Value,
    writes,
)
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.simplifier import simplify
from xla_server.codegen.lower.lowering import lower
from xla_server.ir.module import HloModule
from xla_server.target.target import Target

TARGET = Target.of(DEVICE)


def compiled(module: HloModule) -> Code:
    """Return the thunks of a module by way of all passes, with verified, simplified kernels."""
    return _verified(compile_module(module, target=TARGET, lowerings=CUDA_LOWERINGS).code)


def lowered(module: HloModule) -> Code:
    """Return the thunks of a module without passes, with verified, simplified kernels."""
    return _verified(lower(module, CUDA_LOWERINGS, TARGET))


def grids(code: Code) -> list[GridKernel]:
    """Return the kernels that a GPU executes, in the order of their thunks."""
    kernels = (thunk.kernel for thunk in code.thunks if isinstance(thunk, KernelThunk))
    return [kernel for kernel in kernels if isinstance(kernel, GridKernel)]


def through_host(code: Code) -> list[str]:
    """Return the names of the thunks that the host executes."""
    return [thunk.name for thunk in code.thunks if is_of_host(thunk)]


def is_of_host(thunk: Thunk) -> bool:
    """Return whether a thunk is done by the host."""
    if isinstance(thunk, KernelThunk):
        return not isinstance(thunk.kernel, GridKernel | LibraryPlan)
    return isinstance(thunk, HostThunk)


def _verified(code: Code) -> Code:
    for thunk in code.thunks:
        if isinstance(thunk, KernelThunk) and isinstance(thunk.kernel, GridKernel):
            sizes = {n: value.byte_size for n, value in enumerate(thunk.arguments)}
            verify(thunk.kernel.kernel, sizes)
            assert simplify(thunk.kernel.kernel) is thunk.kernel.kernel
    return code


Observe = Callable[[KernelThunk, Sequence[Any], Sequence[Any]], None]
"""Called with each launch: its thunk, and the bytes of its arguments before it and after."""


def results_of(
    module: HloModule,
    code: Code,
    arguments: Sequence[Any],
    observe: Observe = lambda thunk, before, after: None,
) -> list[Any]:
    """Return the results of a module by its thunks. Those that call Python are not executed."""
    root = module.entry.root.shape
    shapes = root.tuple_shapes if root.is_tuple else (root,)
    arrays = _Run(code, arguments, observe).results()
    return [a.reshape(shape.dimensions) for a, shape in zip(arrays, shapes, strict=True)]


class _Run:
    """One execution, in which each value has memory of its own."""

    def __init__(self, code: Code, arguments: Sequence[Any], observe: Observe) -> None:
        self._code, self._observe = code, observe
        self._bytes: dict[Value, Any] = {CANCELLATION: np.zeros(8, np.uint8)}
        given = zip(code.parameters, arguments, strict=True)
        for value, array in (*given, *code.constants.items()):
            self._bytes[value] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        # A pattern that is a NaN of every float, until a thunk writes it.
        for value in (*code.results, *(each for thunk in code.thunks for each in writes(thunk))):
            self._bytes.setdefault(value, np.full(value.byte_size, 0xFF, np.uint8))
        kernels = dict.fromkeys(grids(code))
        self._symbols: Mapping[GridKernel, str] = {k: f"k{n}" for n, k in enumerate(kernels)}
        self._twin = Twin({symbol: kernel for kernel, symbol in self._symbols.items()})

    def results(self) -> list[Any]:
        """Execute the thunks, and return the arrays of the results."""
        thunks, number = self._code.thunks, 0
        labels = {thunk: n for n, thunk in enumerate(thunks) if isinstance(thunk, Label)}
        while number < len(thunks):
            target = self._do(thunks[number])
            number = number + 1 if target is None else labels[target]
        return [self._array(value) for value in self._code.results]

    def _do(self, thunk: Thunk) -> Label | None:
        """Execute a thunk; return the label to go on at, None for the next thunk."""
        match thunk:
            case KernelThunk(kernel=GridKernel() as grid):
                self._launch(thunk, grid)
            case KernelThunk(kernel=LibraryPlan() as plan):
                self._compute(thunk, plan)
            case KernelThunk():
                run(thunk.kernel, [self._bytes[v] for v in thunk.arguments], 0, thunk.work_items)
            case CopyThunk():
                self._bytes[thunk.target][:] = self._bytes[thunk.source]
            case Jump(label=label):
                return label
            case Branch(predicate=predicate, otherwise=otherwise):
                return None if self._bytes[predicate][0] else otherwise
            case Switch(index=index, labels=labels):
                chosen = int(self._bytes[index].view(np.int32)[0])
                return labels[chosen if 0 <= chosen < len(labels) else -1]
            case HostThunk():
                raise AssertionError(f"%{thunk.name} calls Python")
        return None

    def _launch(self, thunk: KernelThunk, grid: GridKernel) -> None:
        arrays = [self._bytes[value] for value in thunk.arguments]
        made = self._twin.launched(self._symbols[grid], arrays)
        self._observe(thunk, arrays, made)
        for value, array in zip(thunk.arguments, made, strict=True):
            if value in thunk.writes:
                self._bytes[value][:] = array

    def _compute(self, thunk: KernelThunk, plan: LibraryPlan) -> None:
        memory = [Guarded(value.byte_size) for value in thunk.arguments]
        for value, guarded in zip(thunk.arguments, memory, strict=True):
            guarded.put(self._bytes[value])
        compute(plan, [guarded.address for guarded in memory])
        for value, guarded in zip(thunk.arguments, memory, strict=True):
            if value in thunk.writes:
                self._bytes[value][:] = guarded.bytes

    def _array(self, value: Value) -> Any:
        return self._bytes[value].view(value.shape.element_type.dtype)
