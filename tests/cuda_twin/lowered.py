"""Programs lowered for a GPU, their rows executed one after the other: kernels on the twin, and
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
    Row,
    Switch,
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
    """Return the rows of a module by way of all passes, with verified, simplified kernels."""
    return _verified(compile_module(module, target=TARGET, lowerings=CUDA_LOWERINGS).code)


def lowered(module: HloModule) -> Code:
    """Return the rows of a module without passes, with verified, simplified kernels."""
    return _verified(lower(module, CUDA_LOWERINGS, TARGET))


def grids(code: Code) -> list[GridKernel]:
    """Return the kernels that a GPU executes, in the order of their rows."""
    kernels = (row.kernel for row in code.rows if isinstance(row, KernelThunk))
    return [kernel for kernel in kernels if isinstance(kernel, GridKernel)]


def through_host(code: Code) -> list[str]:
    """Return the names of the rows that the host executes."""
    return [row.name for row in code.rows if is_of_host(row)]


def is_of_host(row: Row) -> bool:
    """Return whether a row is done by the host."""
    if isinstance(row, KernelThunk):
        return not isinstance(row.kernel, GridKernel | LibraryPlan)
    return isinstance(row, HostThunk)


def _verified(code: Code) -> Code:
    for row in code.rows:
        if isinstance(row, KernelThunk) and isinstance(row.kernel, GridKernel):
            sizes = {n: value.byte_size for n, value in enumerate(row.arguments)}
            verify(row.kernel.kernel, sizes)
            assert simplify(row.kernel.kernel) is row.kernel.kernel
    return code


Observe = Callable[[KernelThunk, Sequence[Any], Sequence[Any]], None]
"""Told of each launch: its row, and the bytes of its arguments before it and after."""


def results_of(
    module: HloModule,
    code: Code,
    arguments: Sequence[Any],
    observe: Observe = lambda row, before, after: None,
) -> list[Any]:
    """Return the results of a module by its rows. Those that call Python are not executed."""
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
        # A pattern that is a NaN of every float, until a row writes it.
        for value in (*code.results, *(each for row in code.rows for each in writes(row))):
            self._bytes.setdefault(value, np.full(value.byte_size, 0xFF, np.uint8))
        kernels = dict.fromkeys(grids(code))
        self._symbols: Mapping[GridKernel, str] = {k: f"k{n}" for n, k in enumerate(kernels)}
        self._twin = Twin({symbol: kernel for kernel, symbol in self._symbols.items()})

    def results(self) -> list[Any]:
        """Execute the rows, and return the arrays of the results."""
        rows, number = self._code.rows, 0
        labels = {row: n for n, row in enumerate(rows) if isinstance(row, Label)}
        while number < len(rows):
            target = self._do(rows[number])
            number = number + 1 if target is None else labels[target]
        return [self._array(value) for value in self._code.results]

    def _do(self, row: Row) -> Label | None:
        """Execute a row; return the label to go on at, None for the next row."""
        match row:
            case KernelThunk(kernel=GridKernel() as grid):
                self._launch(row, grid)
            case KernelThunk(kernel=LibraryPlan() as plan):
                self._compute(row, plan)
            case KernelThunk():
                run(row.kernel, [self._bytes[v] for v in row.arguments], 0, row.work_items)
            case CopyThunk():
                self._bytes[row.target][:] = self._bytes[row.source]
            case Jump(label=label):
                return label
            case Branch(predicate=predicate, otherwise=otherwise):
                return None if self._bytes[predicate][0] else otherwise
            case Switch(index=index, labels=labels):
                chosen = int(self._bytes[index].view(np.int32)[0])
                return labels[chosen if 0 <= chosen < len(labels) else -1]
            case HostThunk():
                raise AssertionError(f"%{row.name} calls Python")
        return None

    def _launch(self, row: KernelThunk, grid: GridKernel) -> None:
        arrays = [self._bytes[value] for value in row.arguments]
        made = self._twin.launched(self._symbols[grid], arrays)
        self._observe(row, arrays, made)
        for value, array in zip(row.arguments, made, strict=True):
            if value in row.writes:
                self._bytes[value][:] = array

    def _compute(self, row: KernelThunk, plan: LibraryPlan) -> None:
        memory = [Guarded(value.byte_size) for value in row.arguments]
        for value, guarded in zip(row.arguments, memory, strict=True):
            guarded.put(self._bytes[value])
        compute(plan, [guarded.address for guarded in memory])
        for value, guarded in zip(row.arguments, memory, strict=True):
            if value in row.writes:
                self._bytes[value][:] = guarded.bytes

    def _array(self, value: Value) -> Any:
        return self._bytes[value].view(value.shape.element_type.dtype)
