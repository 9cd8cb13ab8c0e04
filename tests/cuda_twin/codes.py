"""Programs of one instruction as rows of kernels for a GPU, and their results on the host."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.programs import TARGET
from tests.cuda_twin.twin import Twin, unwritten
from tests.unit.codegen.compiled import built, interpreted
from xla_client.programs.builder import Op
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Value
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.verify import verify
from xla_server.codegen.lower.lowering import Lower, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloModule


def code_of(module: HloModule, opcode: Opcode, by: Lower) -> Code:
    """Return the rows of a program, one of whose opcodes has a lowering of its own."""
    return lower(module, {**LOWERINGS, opcode: by}, TARGET)


def launches(code: Code) -> list[KernelThunk]:
    """Return the rows that are kernels for a GPU, which all that call kernels are."""
    found = [row for row in code.rows if isinstance(row, KernelThunk)]
    for row in found:
        assert isinstance(row.kernel, GridKernel), row
    return found


def run(code: Code, arguments: Sequence[Any]) -> list[Any]:
    """Return the results of rows that are verified kernels or copies, in all orders of threads."""
    kernels: dict[KernelThunk, GridKernel] = {}
    for row in launches(code):
        assert isinstance(row.kernel, GridKernel)
        verify(row.kernel.kernel, {n: value.byte_size for n, value in enumerate(row.arguments)})
        kernels[row] = row.kernel
    symbols = {row: f"k{number}" for number, row in enumerate(kernels)}
    twin = Twin({symbols[row]: grid for row, grid in kernels.items()}) if kernels else None
    memory: dict[Value, Any] = dict(zip(code.parameters, map(np.asarray, arguments), strict=True))
    memory.update((value, np.asarray(array)) for value, array in code.constants.items())
    for row in code.rows:
        if isinstance(row, CopyThunk):
            memory[row.target] = memory[row.source].reshape(row.target.shape.dimensions)
            continue
        assert isinstance(row, KernelThunk), row
        assert twin is not None
        known = memory.keys() - (set(row.writes) - set(row.updates))
        given = [memory[value] if value in known else _unwritten(value) for value in row.arguments]
        after = twin.launched(symbols[row], given)
        memory.update(zip(row.arguments, after, strict=True))
    return [memory[value] if value in memory else _unwritten(value) for value in code.results]


def _unwritten(value: Value) -> Any:
    return unwritten(value.shape.element_type.dtype, value.shape.dimensions)


def both(
    opcode: Opcode, by: Lower, function: Callable[..., Op], *arguments: Any
) -> list[tuple[Any, Any]]:
    """Return (on the twin, interpreted) for each result of a program that `function` states."""
    module = built(function, arguments)
    given = [np.asarray(argument) for argument in arguments]
    ours = run(code_of(module, opcode, by), given)
    return list(zip(ours, interpreted(module, given), strict=True))
