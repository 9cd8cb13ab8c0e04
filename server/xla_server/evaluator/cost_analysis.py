"""Arithmetic operations of a program, counted from its shapes.

It counts as XLA's HLO cost analysis does: one flop per result element of an elementwise operation,
a transcendental instead for functions with no exact algorithm, two flops per multiply-add. Each
called computation counts once, as the number of a loop's iterations is unknown.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

from xla_contract.ops.contraction.ragged_dot import RaggedMode
from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE, TRANSCENDENTAL
from xla_server.ops.numerics.windows import dimension_reads

_COUNTED_KERNEL = 2**16
"""The longest kernel whose reads of padding are subtracted; the count takes this many steps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Operations of a program. Floats: a hostile program may count past any integer type."""

    flops: float = 0.0
    transcendentals: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals)

    def __mul__(self, times: float) -> "Cost":
        return Cost(self.flops * times, self.transcendentals * times)


def module_cost(module: HloModule) -> Cost:
    """The cost of running the entry computation of a verified module once."""
    known: dict[HloComputation, Cost] = {}
    for computation in module.computations:
        total = Cost()
        for instruction in computation.instructions:
            called = [known[callee] for callee in instruction.called]
            total += instruction_cost(instruction, called)
        known[computation] = total
    return known[module.entry]


def instruction_cost(instruction: HloInstruction, called: list[Cost]) -> Cost:
    """The cost of one instruction whose called computations cost `called`."""
    opcode = instruction.opcode
    if opcode in TRANSCENDENTAL:
        return Cost(transcendentals=_elements(instruction.shape))
    if opcode in ONE_FLOP:
        return Cost(flops=_elements(instruction.shape))
    count = _SPECIAL.get(opcode)
    return Cost() if count is None else count(instruction, called)


def _elements(shape: Shape) -> float:
    return math.prod(map(float, shape.dimensions))


def _dot(instruction: HloInstruction, called: list[Cost]) -> Cost:
    numbers = instruction.attributes.dimension_numbers
    lhs = instruction.operands[0].shape
    width = math.prod(float(lhs.dimensions[d]) for d in numbers.lhs_contracting_dimensions)
    return Cost(flops=2 * width * _elements(instruction.shape))


def _ragged_dot(instruction: HloInstruction, called: list[Cost]) -> Cost:
    groups = instruction.operands[2].shape.dimensions[-1]
    stacked = instruction.attributes.mode is RaggedMode.CONTRACTING
    return _dot(instruction, called) * (1 / max(1, groups) if stacked else 1)


def _convolution(instruction: HloInstruction, called: list[Cost]) -> Cost:
    attributes = instruction.attributes
    numbers = attributes.dimension_numbers
    lhs, result = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
    positions = math.prod(
        _valid_positions(lhs[of_lhs], result[of_result], window)
        for of_lhs, of_result, window in zip(
            numbers.input_spatial_dimensions,
            numbers.output_spatial_dimensions,
            attributes.window.dimensions,
            strict=True,
        )
    )
    features = lhs[numbers.input_feature_dimension] / max(1, attributes.feature_group_count)
    batch = lhs[numbers.input_batch_dimension] / max(1, attributes.batch_group_count)
    return Cost(flops=2.0 * positions * features * batch * result[numbers.output_feature_dimension])


def _valid_positions(size: int, outputs: int, window: WindowDimension) -> float:
    """Return how many pairs of kernel position and output read an element, no padding or hole."""
    if window.size > _COUNTED_KERNEL:
        return float(window.size) * outputs
    found = dimension_reads(window, size, outputs)
    return float(sum(len(range(outputs)[positions]) for positions, _ in found))


def _reduce(instruction: HloInstruction, called: list[Cost]) -> Cost:
    merged = _elements(instruction.operands[0].shape) - _elements(instruction.shape.parts[0])
    return called[0] * max(0.0, merged)


def _window_size(instruction: HloInstruction) -> float:
    return math.prod(float(part.size) for part in instruction.attributes.window.dimensions)


def _reduce_window(instruction: HloInstruction, called: list[Cost]) -> Cost:
    results = _elements(instruction.shape.parts[0])
    return called[0] * ((_window_size(instruction) - 1) * results)


def _select_and_scatter(instruction: HloInstruction, called: list[Cost]) -> Cost:
    sources = _elements(instruction.operands[1].shape)
    select, scatter = called
    return select * (sources * (_window_size(instruction) - 1)) + scatter * sources


def _map(instruction: HloInstruction, called: list[Cost]) -> Cost:
    return called[0] * _elements(instruction.shape)


def _sort(instruction: HloInstruction, called: list[Cost]) -> Cost:
    elements = _elements(instruction.operands[0].shape)
    return Cost(flops=elements * max(0, math.ceil(math.log2(elements))) if elements else 0.0)


def _all(instruction: HloInstruction, called: list[Cost]) -> Cost:
    return sum(called, start=Cost())


def _most_expensive(instruction: HloInstruction, called: list[Cost]) -> Cost:
    return Cost(
        max((cost.flops for cost in called), default=0.0),
        max((cost.transcendentals for cost in called), default=0.0),
    )


def _random(instruction: HloInstruction, called: list[Cost]) -> Cost:
    return Cost(transcendentals=sum(map(_elements, instruction.shape.leaves())))


ONE_FLOP = (ELEMENTWISE - TRANSCENDENTAL) | {Opcode.STOCHASTIC_CONVERT}
"""The other operations on elements, which count one flop for each."""

_SPECIAL: Mapping[Opcode, Callable[[HloInstruction, list[Cost]], Cost]] = {
    Opcode.CALL: _all,
    Opcode.CONDITIONAL: _most_expensive,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.SCALED_DOT: _dot,
    Opcode.FUSION: _all,
    Opcode.MAP: _map,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.RNG: _random,
    Opcode.RNG_BIT_GENERATOR: _random,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SORT: _sort,
    Opcode.WHILE: _all,
}
