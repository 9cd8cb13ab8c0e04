"""Kernels for a GPU of the results of a program, and their results on the host."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.device.twin import DEVICE, Twin
from tests.unit.codegen.compiled import built, interpreted
from xla_client.programs.builder import Op
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.table import scheduled_by
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.lower.loop_nests.loop_kernel import LoopTask, in_place_pairs, maker_of
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.trace.rules import RULES
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.target.target import Target

TARGET = Target.of(DEVICE)


def rows_of(module: HloModule) -> list[HloInstruction]:
    """Return the instructions that give the results of a program, a tuple taken apart."""
    root = module.entry.root
    return list(root.operands) if root.opcode is Opcode.TUPLE else [root]


def kernel_of(module: HloModule, row: HloInstruction) -> GridKernel:
    """Return the verified kernel that computes an instruction from the program's parameters.

    Buffers are the parameters by their numbers, and behind them the results.
    """
    graph = _Graph.of(module, row)
    _, grid = scheduled_by(graph.nest, graph.largest)
    verify(grid.kernel, {n: value.byte_size for n, value in enumerate(graph.buffers)})
    return grid


def shapes_of(row: HloInstruction) -> Sequence[Shape]:
    """Return the shapes of an instruction's results: one, or those of a flat tuple."""
    return row.shape.tuple_shapes if row.shape.is_tuple else (row.shape,)


def schedule_of(module: HloModule) -> str:
    """Return the name of the schedule that makes the kernel of the one result of a program."""
    (row,) = rows_of(module)
    graph = _Graph.of(module, row)
    return scheduled_by(graph.nest, graph.largest)[0].name


def places_of(module: HloModule, row: HloInstruction) -> list[tuple[int, int]]:
    """Return the results that may be written over an operand, by the numbers of their buffers."""
    graph = _Graph.of(module, row)
    buffers = graph.buffers
    return [
        (buffers.index(new), buffers.index(old)) for new, old in in_place_pairs(graph.nest, buffers)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Graph:
    """The nest of an instruction, the elements of its largest buffer, and all buffers."""

    nest: Nest
    largest: int
    buffers: Sequence[Value]

    @classmethod
    def of(cls, module: HloModule, row: HloInstruction) -> "_Graph":
        parameters = module.entry.parameters
        values = {parameter: Value(parameter.shape, parameter.name) for parameter in parameters}
        results = tuple(Value(shape, row.name) for shape in shapes_of(row))
        numbers = tuple(range(len(results)))
        task = LoopTask(row, row, values, results, row.name, numbers, TARGET)
        buffers = [*values.values(), *results]
        make = maker_of(task, buffers, {})
        dimensions = results[0].shape.dimensions
        nest = Nest(*collapsed(dimensions, lambda index: make(index, RULES)), TARGET)
        largest = max(value.shape.element_count for value in buffers)
        return cls(nest, largest, buffers)


def kernels_of(module: HloModule) -> Mapping[str, GridKernel]:
    """Return the kernels of a program's results by their symbols."""
    return {f"k{n}": kernel_of(module, row) for n, row in enumerate(rows_of(module))}


def on_twin(module: HloModule, arguments: Sequence[Any]) -> list[Any]:
    """Return the results of a program by kernels for a GPU, on the host."""
    kernels = kernels_of(module)
    twin = Twin(kernels)
    found = []
    for symbol, row in zip(kernels, rows_of(module), strict=True):
        results = [(shape.element_type.dtype, shape.dimensions) for shape in shapes_of(row)]
        found += twin.run(symbol, arguments, results)
    return found


def both(function: Callable[..., Op], *arguments: Any) -> list[tuple[Any, Any]]:
    """Return (on the twin, interpreted) for each result of a program that `function` states."""
    module = built(function, arguments)
    given = [np.asarray(argument) for argument in arguments]
    return list(zip(on_twin(module, given), interpreted(module, given), strict=True))
