"""Lowering of concatenates: operands in memory are copied, fused ones computed into the result.

Each operand fills a box of the result. One kernel, shared by all programs, copies the operands that
are in memory, by a table of sources and offsets. Operands that are fused into a concatenate are
loops that store into the result.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Operands, Routine, function_address
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    LoopKernel,
    LoopTask,
    evaluated_instructions,
    loop_kernel,
    maker_of,
    units_of,
)
from xla_server.codegen.lower.loop_nests.loop_lowering import add_loops, lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.movement.concatenation import (
    BUFFER,
    BY_BYTES,
    BY_ROWS,
    ENTRY_WORDS,
    HEAD_WORDS,
    INTERLEAVE,
    LINE_BYTES,
    OFFSET,
    TILE_BYTES,
    copying,
)
from xla_server.codegen.routines.movement.transposed_tiles import side_of, tile_name
from xla_server.codegen.schedules.builders.collapse import Make
from xla_server.codegen.schedules.builders.split_dimension import split_dimension
from xla_server.codegen.schedules.nests.pieces import Box, are_few, box_kernels
from xla_server.codegen.trace.graph import Node, Reduction
from xla_server.codegen.trace.tracer import Origins
from xla_server.ir.analysis.affine import Variable, linear, multi_index, variable
from xla_server.ir.analysis.index_maps import MAPPED, operand_index
from xla_server.ir.module import HloInstruction
from xla_server.target.tuning import Tuning


@dataclasses.dataclass(frozen=True, slots=True)
class Runs:
    """An operand's elements in the memory of `source`: the first one, and the runs' stride."""

    source: HloInstruction
    offset: int
    stride: int


@dataclasses.dataclass(frozen=True, slots=True)
class Division:
    """The operands of a concatenate, by number: copied ones and computed ones.

    If `is_nest`, one loop nest tests for each element to which operand it belongs.
    """

    root: HloInstruction
    copied: Mapping[int, Runs]
    computed: Sequence[int]
    is_nest: bool = False


def division_of(i: HloInstruction, tuning: Tuning) -> Division:
    """Return how a concatenate, or a loop fusion whose result is one, is computed."""
    root, inputs = i, {operand: operand for operand in i.operands}
    if i.opcode is Opcode.FUSION:
        (called,) = i.called
        root, inputs = called.root, dict(zip(called.parameters, i.operands, strict=True))
    parts = [n for n, part in enumerate(root.operands) if part.shape.element_count]
    found = {n: runs_of(root.operands[n], root.attributes.dimension, inputs) for n in parts}
    copied = {n: runs for n, runs in found.items() if runs is not None}
    computed = [n for n in parts if n not in copied]
    if not computed:
        return Division(root, copied, ())
    pieces, tests = tuning.loops.pieces, 2 * len(parts) - 2
    if are_few(root.shape.element_count, tests, pieces, is_long=True):
        return Division(root, {}, parts, is_nest=True)
    if len(copied) <= tuning.concatenates.max_joined_copies:
        return Division(root, {}, parts)
    return Division(root, copied, computed)


def lower_concatenate(lowering: Lowering, i: HloInstruction) -> Tree:
    """Lower a concatenate, or a loop fusion whose result is one."""
    if not i.shape.element_count:
        return lowering.new(i.shape, i.name)
    division = division_of(i, lowering.target.tuning)
    if division.is_nest:
        return lower_loop(lowering, i)
    result = lowering.new(i.shape, i.name)
    if division.copied:
        _add_copies(lowering, division.root, division.copied, result)
    if division.computed:
        add_loops(lowering, i, (result,), _loops)
    return result


def write_loops(task: LoopTask) -> LoopKernel:
    """Write the kernels of a task: loops for operands of a concatenate, else one loop nest."""
    i = task.instruction
    root = i.called[0].root if i.opcode is Opcode.FUSION else i
    if task.root is not i or root.opcode is not Opcode.CONCATENATE:
        return loop_kernel(task)
    return loop_kernel(task) if division_of(i, task.target.tuning).is_nest else _loops(task)


def runs_of(
    operand: HloInstruction, dimension: int, inputs: Mapping[HloInstruction, HloInstruction]
) -> Runs | None:
    """Return the runs of a concatenate's operand in memory.

    A run has the elements of `dimension` and later ones, which are contiguous; runs have equal
    strides. The result is None for an operand that is computed or stored otherwise. `inputs` has
    the arrays in memory, by instruction of the concatenate's computation.
    """
    sizes, source = operand.shape.dimensions, operand
    row, column = (
        Variable(math.prod(part), "i") for part in (sizes[:dimension], sizes[dimension:])
    )
    index = multi_index(variable(row) * column.size + variable(column), sizes)
    while source not in inputs:
        if source.opcode not in MAPPED:
            return None
        index = operand_index(source, index)
        source = source.operands[0]
    element = linear(index, source.shape.dimensions)
    steps = dict(element.terms)
    stride = steps.pop(row, 0)
    are_runs = steps == ({column: 1} if column.size > 1 else {})
    return Runs(inputs[source], element.constant, stride) if are_runs else None


def _add_copies(
    lowering: Lowering, root: HloInstruction, copied: Mapping[int, Runs], result: Value
) -> None:
    """Add the kernel that copies operands, by their numbers, to their offsets in the result."""
    tuned = lowering.target.tuning.concatenates
    dimension, width = root.attributes.dimension, root.shape.element_type.byte_width
    rows = math.prod(root.shape.dimensions[:dimension])
    parts = sum(part.shape.element_count > 0 for part in root.operands)
    row_bytes = root.shape.element_count // rows * width
    is_by_rows = rows >= tuned.min_block_rows and row_bytes < tuned.min_call_bytes * parts
    buffers = {result: 1}
    entries, target, filled = [], 0, 0
    for number, operand in enumerate(root.operands):
        size = operand.shape.element_count // rows * width
        runs = copied.get(number)
        if runs is not None and size:
            buffer = buffers.setdefault(lowering.array(runs.source), len(buffers) + 1)
            entries.append((buffer, runs.offset * width, runs.stride * width, target, size, filled))
            filled += size
        target += size
    block = max(tuned.min_block_rows, tuned.block_bytes // target)
    head = (len(entries), target, filled, rows, block)
    words = np.array([*head, *itertools.chain(*entries)], np.int64)
    table = lowering.new(Shape.array(ElementType.S64, words.shape), f"{root.name}.table")
    lowering.constants[table] = words
    size = entries[0][4]
    side = side_of(size, rows, len(entries))
    is_interleaved = is_by_rows and _are_elements(entries, target)
    is_few = len(entries) <= tuned.max_loop_operands
    if is_interleaved and (side is None or (is_few and side * size < tuned.min_tile_row_bytes)):
        kernel = _interleaving_loop(len(entries), size, rows)
    elif is_interleaved and side and rows * size >= TILE_BYTES:
        operands = {"tile": function_address(tile_name(size, side)), "side": side, "width": size}
        routine = copying(INTERLEAVE, TILE_BYTES * len(entries))
        kernel = _call(routine, -(-rows * size // TILE_BYTES), operands)
    elif is_by_rows:
        kernel = _call(copying(BY_ROWS, filled), rows)
    else:
        kernel = _call(copying(BY_BYTES, LINE_BYTES), -(-filled * rows // LINE_BYTES))
    thunk = kernel_thunk(root.name, kernel, (table, *buffers))
    reads = (table, *(value for value in buffers if value is not result))
    # The kernel reads addresses from the table of buffers, at positions in its own table.
    lowering.add(dataclasses.replace(thunk, reads=reads, writes=(result,)))


def _call(routine: Routine, items: int, operands: Operands = MappingProxyType({})) -> Kernel:
    """Return a kernel that calls a routine for a range of work items, with the table of buffers."""
    top = Body()
    with Items(top, items, None) as body:
        body.call(routine, {"buffers": ir.BUFFERS, "start": ir.START, "stop": ir.STOP, **operands})
    return Kernel((), (), tuple(top.statements), Effort.UNOPTIMISED)


def _are_elements(entries: Sequence[tuple[int, ...]], row_bytes: int) -> bool:
    """Return whether runs have the size of an element, and are contiguous in source and result."""
    size = entries[0][4]
    return (
        size in (1, 2, 4, 8)
        and len(entries) * size == row_bytes
        and all(stride == each == size for _, _, stride, _, each, _ in entries)
    )


def _interleaving_loop(count: int, size: int, rows: int) -> Kernel:
    """Return the kernel that interleaves elements of few operands in one loop.

    LLVM vectorises the loop. The code depends only on the count and the size of an element, so that
    programs share the kernel.
    """
    table, result = ir.Buffer(0, ir.Usage.READ), ir.Buffer(1, ir.Usage.WRITE)
    kind, top = f"u{8 * size}", Body()

    def word(number: int) -> ir.Load:
        return ir.Load(table, Type.I64, ir.Index(number))

    sources = []
    for n in range(count):
        entry = HEAD_WORDS + n * ENTRY_WORDS
        address = ir.Load(ir.Region(ir.BUFFERS, ir.Usage.READ), Type.I64, word(entry + BUFFER))
        source = top.let(f"source{n}", ir.integer_op("add", address, word(entry + OFFSET)))
        sources.append(ir.Region(source, ir.Usage.READ))
    with Items(top, rows, "row") as body:
        for n, memory in enumerate(sources):
            element = ir.Load(memory, Type(kind), body.axis)
            body.store(result, kind, ir.Index(n, ((body.axis, count),)), element)
    return Kernel((table, result), (), tuple(top.statements))


def _loops(task: LoopTask) -> LoopKernel:
    """Write the kernels that compute operands and store them in a task's only result."""
    (result,) = task.values
    division = division_of(task.instruction, task.target.tuning)
    buffers = list(dict.fromkeys([*task.stored.values(), result]))
    origins: Origins = {}
    make, boxes = _split(division, maker_of(task, buffers, origins))
    thunks: list[KernelThunk] = []
    kernels: list[Kernel] = []
    evaluations: dict[Node | Reduction, float] = {}
    dimension = division.root.attributes.dimension
    for found in box_kernels(make, boxes, dimension, task.target, is_repeated=task.is_repeated):
        updates = (result,) if division.copied or thunks else ()
        thunks.append(kernel_thunk(task.name, found.kernel, buffers, updates=updates))
        kernels.append(found.kernel)
        evaluations.update(found.evaluations)
    evaluated = evaluated_instructions(evaluations, origins)
    return LoopKernel(task, tuple(thunks), evaluated, units_of(kernels, task.target), ())


def _split(division: Division, make: Make) -> tuple[Make, list[Box]]:
    """Return the boxes that operands fill, and the function that makes stores at an index in them.

    The last dimension may be split in two if boxes have all of it.
    """
    boxes, whole = boxes_of(division), division.root.shape.dimensions
    if division.root.attributes.dimension == len(whole) - 1:
        return make, boxes
    sizes, make = split_dimension(whole, make)
    inner = tuple((0, size) for size in sizes[len(whole) - 1 :])
    return make, [box[:-1] + inner for box in boxes]


def boxes_of(division: Division) -> list[Box]:
    """Return the boxes of a concatenate's result that its computed operands fill."""
    root = division.root
    dimension = root.attributes.dimension
    ends = list(itertools.accumulate(part.shape.dimensions[dimension] for part in root.operands))
    boxes = []
    for number in division.computed:
        box = [(0, size) for size in root.shape.dimensions]
        size = root.operands[number].shape.dimensions[dimension]
        box[dimension] = (ends[number] - size, ends[number])
        boxes.append(tuple(box))
    return boxes
