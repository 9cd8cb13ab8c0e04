"""Editing of computations: the operations that every pass is written with."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.elementwise.compare import CompareAttributes, ComparisonDirection
from xla_contract.ops.elementwise.convert import ConvertAttributes
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.ops.reduction.reduce import ReduceAttributes
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.ops.shaping.iota import IotaAttributes
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
)
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.custom_calls.targets import random_state
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.text.names import UniqueNames


class Editor:
    """Makes instructions for one computation, with names that are new to its module.

    New instructions may call new computations. `RewritePass` inserts the `shared` ones before all
    others of the module, and the `inner` ones before the computation that it rewrites. The shared
    ones are keyed by their purpose.
    """

    def __init__(self, module: HloModule) -> None:
        highest = max((instruction.id for instruction in module.instructions()), default=0)
        self.module = module
        self._names = UniqueNames(instruction.name for instruction in module.instructions())
        self._ids = itertools.count(highest + 1)
        self._computation_ids = itertools.count(
            1 + max((part.id for part in module.computations), default=0)
        )
        self._made: dict[HloInstruction, None] = {}
        self.shared: dict[object, HloComputation] = {}
        self.inner: list[HloComputation] = []

    def drain(self) -> list[HloInstruction]:
        """Remove and return the instructions made since the last call."""
        made, self._made = self._made, {}
        return list(made)

    def insert_inner(self, module: HloModule, computation: HloComputation) -> None:
        """Put the `inner` computations before the one that calls them."""
        if self.inner:
            index = module.computations.index(computation)
            module.computations[index:index] = self.inner
            self.inner = []

    def put_back(self, instructions: Iterable[HloInstruction]) -> None:
        """Return instructions to the editor: the next `drain` returns them before newer ones."""
        self._made.update(dict.fromkeys(instructions))

    def computation(
        self,
        name: str,
        instructions: Sequence[HloInstruction],
        root: HloInstruction,
        parameters: Sequence[HloInstruction],
    ) -> HloComputation:
        """Make a computation of instructions of this editor, which `drain` no longer returns."""
        for part in instructions:
            self._made.pop(part, None)
        number = next(self._computation_ids)
        return HloComputation(
            f"{name}.{number}", number, list(instructions), root, tuple(parameters)
        )

    def add(
        self,
        opcode: Opcode,
        operands: Sequence[HloInstruction],
        attributes: Any = NO_ATTRIBUTES,
        called: Sequence[HloComputation] = (),
        *,
        shape: Shape | None = None,
    ) -> HloInstruction:
        """Add an instruction, of the shape that its rule infers, or of `shape`."""
        if shape is None:
            shape = infer_shape(
                opcode,
                [operand.shape for operand in operands],
                attributes,
                [computation.program_shape for computation in called],
            )
        made = HloInstruction(
            self._names.new(str(opcode)),
            next(self._ids),
            opcode,
            shape,
            tuple(operands),
            attributes,
            tuple(called),
        )
        self._made[made] = None
        return made

    def copy(
        self, instruction: HloInstruction, operands: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Add the same operation on other operands."""
        made = dataclasses.replace(
            instruction,
            name=self._names.new(instruction.name),
            id=next(self._ids),
            operands=tuple(operands),
        )
        self._made[made] = None
        return made

    def constant(self, value: Any, element_type: ElementType) -> HloInstruction:
        """Add a constant array of this type; Python numbers are converted to it."""
        array = np.asarray(value)
        if array.dtype != element_type.dtype:
            array = array.astype(element_type.dtype)
        literal = Literal.from_numpy(array, Shape.array(element_type, array.shape))
        return self.add(Opcode.CONSTANT, (), ConstantAttributes(literal))

    def full(
        self, value: Any, element_type: ElementType, dimensions: Sequence[int]
    ) -> HloInstruction:
        """A scalar constant broadcast to these dimensions."""
        return self.broadcast(self.constant(value, element_type), (), dimensions)

    def broadcast(
        self, operand: HloInstruction, mapped: Sequence[int], dimensions: Sequence[int]
    ) -> HloInstruction:
        """Broadcast the operand, its dimensions to the `mapped` ones; or return it unchanged."""
        is_in_order = list(mapped) == list(range(len(mapped)))
        if is_in_order and operand.shape.dimensions == tuple(dimensions):
            return operand
        attributes = BroadcastAttributes(tuple(mapped), tuple(dimensions))
        return self.add(Opcode.BROADCAST, (operand,), attributes)

    def reshape(self, operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
        """Reshape the operand; return it if these are its dimensions."""
        while operand.opcode is Opcode.RESHAPE:
            (operand,) = operand.operands
        if operand.shape.dimensions == tuple(dimensions):
            return operand
        return self.add(Opcode.RESHAPE, (operand,), ReshapeAttributes(tuple(dimensions)))

    def transpose(self, operand: HloInstruction, permutation: Sequence[int]) -> HloInstruction:
        """Transpose the operand; return it for the identity permutation."""
        if list(permutation) == list(range(len(permutation))):
            return operand
        return self.add(Opcode.TRANSPOSE, (operand,), TransposeAttributes(tuple(permutation)))

    def convert(self, operand: HloInstruction, target: ElementType) -> HloInstruction:
        """Convert the operand to this type; return it if this is its type."""
        if operand.shape.element_type is target:
            return operand
        return self.add(Opcode.CONVERT, (operand,), ConvertAttributes(target))

    def sliced(
        self,
        operand: HloInstruction,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> HloInstruction:
        """A box of the operand."""
        steps = (1,) * len(starts) if strides is None else tuple(strides)
        attributes = SliceAttributes(tuple(starts), tuple(limits), steps)
        return self.add(Opcode.SLICE, (operand,), attributes)

    def dynamic_slice(
        self, operand: HloInstruction, starts: Sequence[HloInstruction], sizes: Sequence[int]
    ) -> HloInstruction:
        """A box of the operand that begins at computed indices, one for each dimension."""
        attributes = DynamicSliceAttributes(tuple(sizes))
        return self.add(Opcode.DYNAMIC_SLICE, (operand, *starts), attributes)

    def pad(
        self, operand: HloInstruction, value: HloInstruction, padding: Iterable[PaddingDimension]
    ) -> HloInstruction:
        """Pad the operand with a scalar, around and between its elements."""
        attributes = PadAttributes(PaddingConfig(tuple(padding)))
        return self.add(Opcode.PAD, (operand, value), attributes)

    def concatenate(self, parts: Sequence[HloInstruction], dimension: int) -> HloInstruction:
        """Concatenate the parts along a dimension."""
        return self.add(Opcode.CONCATENATE, parts, ConcatenateAttributes(dimension))

    def iota(
        self, element_type: ElementType, dimensions: Sequence[int], along: int
    ) -> HloInstruction:
        """The index of each element along one dimension."""
        attributes = IotaAttributes(Shape.array(element_type, dimensions), along)
        return self.add(Opcode.IOTA, (), attributes)

    def index_elements(
        self, indices: HloInstruction, mapped: Sequence[int], rank: int
    ) -> list[HloInstruction]:
        """Scalar start indices, by dimension: elements of the only index vector, or zeros."""
        flat = self.reshape(indices, (len(mapped),))
        zero = self.constant(0, indices.shape.element_type)
        starts = [zero] * rank
        for number, d in enumerate(mapped):
            starts[d] = self.at(flat, number)
        return starts

    def at(self, operand: HloInstruction, index: int, dimension: int = 0) -> HloInstruction:
        """The slice of the operand at one index of a dimension, which is dropped."""
        sizes = list(operand.shape.dimensions)
        starts = [0] * len(sizes)
        starts[dimension], sizes[dimension] = index, index + 1
        kept = sizes[:dimension] + sizes[dimension + 1 :]
        return self.reshape(self.sliced(operand, starts, sizes), kept)

    def reduce(
        self,
        operand: HloInstruction,
        initial: HloInstruction,
        dimensions: Sequence[int],
        reducer: HloComputation,
    ) -> HloInstruction:
        """A reduction of one array."""
        attributes = ReduceAttributes(tuple(dimensions))
        return self.add(Opcode.REDUCE, (operand, initial), attributes, (reducer,))

    def dot(
        self,
        i: HloInstruction,
        lhs: HloInstruction,
        rhs: HloInstruction,
        numbers: DotDimensionNumbers,
    ) -> HloInstruction:
        """Add a dot with the result type, precision and algorithm of a product `i`."""
        a = i.attributes
        attributes = DotAttributes(numbers, i.shape.element_type, a.precision, a.algorithm)
        return self.add(Opcode.DOT, (lhs, rhs), attributes)

    def element(self, operand: HloInstruction, index: int) -> HloInstruction:
        """One element of a tuple."""
        if operand.opcode is Opcode.TUPLE:
            return operand.operands[index]
        return self.add(Opcode.GET_TUPLE_ELEMENT, (operand,), GetTupleElementAttributes(index))

    def elements(self, value: HloInstruction) -> list[HloInstruction]:
        """The elements of a tuple; an array alone."""
        if not value.shape.is_tuple:
            return [value]
        return [self.element(value, n) for n in range(len(value.shape.tuple_shapes))]

    def zeros(self, shape: Shape) -> HloInstruction:
        """Zeros of any shape, tokens included."""
        if shape.is_tuple:
            return self.add(Opcode.TUPLE, [self.zeros(part) for part in shape.tuple_shapes])
        if shape.is_token:
            return self.add(Opcode.AFTER_ALL, ())
        kind = shape.element_type
        if not shape.element_count:
            return self.constant(np.empty(shape.dimensions, kind.dtype), kind)
        return self.full(0, kind, shape.dimensions)

    def parameter(self, number: int, shape: Shape) -> HloInstruction:
        """A parameter of a computation that is being made."""
        return self.add(Opcode.PARAMETER, (), ParameterAttributes(number, shape))

    def compare(
        self, lhs: HloInstruction, rhs: HloInstruction, direction: ComparisonDirection
    ) -> HloInstruction:
        """A comparison by the order of the operands' type."""
        return self.add(Opcode.COMPARE, (lhs, rhs), CompareAttributes(direction))

    def tests_of_start(self, start: HloInstruction, last: int) -> Iterator[HloInstruction]:
        """Yield two predicates: a start in s64 is at least 0, and at most `last`."""
        for bound, direction in ((0, ComparisonDirection.GE), (last, ComparisonDirection.LE)):
            yield self.compare(start, self.constant(bound, start.shape.element_type), direction)

    def results_as(self, i: HloInstruction, results: Sequence[HloInstruction]) -> HloInstruction:
        """Pack results like the result of `i`: as a tuple, or the only one by itself."""
        return self.add(Opcode.TUPLE, results) if i.shape.is_tuple else results[0]

    def binary_computation(self, opcode: Opcode, element_type: ElementType) -> HloComputation:
        """The computation of one operation on two scalars, made once and then `shared`."""
        key = opcode, element_type
        if key not in self.shared:
            shape = Shape.scalar(element_type)
            parameters = [self.parameter(n, shape) for n in range(2)]
            root = self.add(opcode, parameters)
            name = f"{opcode}_{element_type.text}"
            self.shared[key] = self.computation(name, [*parameters, root], root, parameters)
        return self.shared[key]


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes a transpose."""
    return tuple(permutation.index(d) for d in range(len(permutation)))


def users(computation: HloComputation) -> dict[HloInstruction, list[HloInstruction]]:
    """The instructions that read each instruction, each once."""
    found: dict[HloInstruction, list[HloInstruction]] = {i: [] for i in computation.instructions}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.operands):
            found[operand].append(instruction)
    return found


def rewrite(
    computation: HloComputation,
    rule: Callable[[HloInstruction], HloInstruction | None],
    editor: Editor,
) -> bool:
    """Replace each instruction for which `rule` returns another; return whether it returned any.

    The rule sees instructions after their operands were replaced, and makes new ones with `editor`,
    which are inserted at the old one's position. Instructions without users are dropped.
    """
    replaced: dict[HloInstruction, HloInstruction] = {}
    instructions: list[HloInstruction] = []
    for instruction in computation.instructions:
        checkpoint()
        if replaced:
            renew_operands(instruction, replaced)
        new = rule(instruction)
        instructions += editor.drain()
        if new is None or new is instruction:
            instructions.append(instruction)
        else:
            replaced[instruction] = new
    if not replaced:
        return False
    for old, new in list(replaced.items()):
        while new in replaced:
            new = replaced[new]
        replaced[old] = new
    computation.root = replaced.get(computation.root, computation.root)
    computation.instructions = instructions
    for instruction in instructions:
        renew_operands(instruction, replaced)
    rearrange(computation)
    return True


def renew_operands(
    instruction: HloInstruction, replaced: Mapping[HloInstruction, HloInstruction]
) -> None:
    """Replace the operands of an instruction by their replacements."""
    operands, before = instruction.operands, instruction.control_predecessors
    if not replaced.keys().isdisjoint(operands):
        instruction.operands = tuple(replaced.get(part, part) for part in operands)
    if not replaced.keys().isdisjoint(before):
        instruction.control_predecessors = tuple(replaced.get(part, part) for part in before)


def rearrange(computation: HloComputation) -> None:
    """Sort instructions so that operands come first, and drop dead ones.

    Parameters and instructions with side effects stay, the latter in their order and as early as
    possible. But random states come just before their readers: thousands of live results would take
    memory, and time to assign it. Raises ValueError for an instruction that depends on itself.
    """
    root = computation.root
    effects = [i for i in computation.instructions if has_side_effect(i)]
    numbers = {i: number for number, i in enumerate(effects)}
    late = {i for i in effects if _is_late(i)}
    following = 0
    order: dict[HloInstruction, None] = {}
    begun: set[HloInstruction] = set()
    for start in (*computation.parameters, *(i for i in effects if i not in late), root):
        waiting = [(start, False)]
        while waiting:
            instruction, is_ready = waiting.pop()
            before = (*instruction.operands, *instruction.control_predecessors)
            if is_ready:
                needed = (numbers.get(part, -1) for part in (instruction, *before))
                last = len(effects) - 1 if instruction is root else max(needed)
                order |= dict.fromkeys(e for e in effects[following : last + 1] if e in late)
                following = max(following, last + 1)
                order[instruction] = None
            elif instruction in order:
                continue
            elif instruction in begun:
                # A cycle is a bug of a pass; without this check it would use up all memory.
                raise ValueError(f"%{instruction.name} must not need its own result")
            else:
                begun.add(instruction)
                waiting.append((instruction, True))
                waiting += [
                    (part, False)
                    for part in reversed(before)
                    if part not in order and part not in late
                ]
    computation.instructions = list(order)


def drop_uncalled(module: HloModule) -> None:
    """Drop computations that the entry computation does not reach."""
    needed = set(module.entry.reachable())
    module.computations = [part for part in module.computations if part in needed]


def _is_late(i: HloInstruction) -> bool:
    """Return whether the only side effect of an instruction is to draw a random state."""
    if i.operands or i.control_predecessors:
        return False
    is_drawn = i.opcode is Opcode.CUSTOM_CALL and i.attributes.target == random_state.TARGET.name
    return is_drawn or i.opcode is Opcode.RNG_GET_AND_UPDATE_STATE


def copy_computation(
    computation: HloComputation, called: Mapping[HloComputation, HloComputation]
) -> HloComputation:
    """Copy a computation; the copy calls the copies, in `called`, of its callees."""
    copies: dict[HloInstruction, HloInstruction] = {}
    for part in computation.instructions:
        copies[part] = dataclasses.replace(
            part,
            operands=tuple(copies[operand] for operand in part.operands),
            called=tuple(called[each] for each in part.called),
            control_predecessors=tuple(copies[before] for before in part.control_predecessors),
        )
    return dataclasses.replace(
        computation,
        instructions=list(copies.values()),
        root=copies[computation.root],
        parameters=tuple(copies[parameter] for parameter in computation.parameters),
    )


def copy_module(module: HloModule) -> HloModule:
    """Copy a module, for passes to change; literals are shared."""
    computations: dict[HloComputation, HloComputation] = {}
    for computation in module.computations:
        computations[computation] = copy_computation(computation, computations)
    entry = computations[module.entry]
    return dataclasses.replace(module, computations=list(computations.values()), entry=entry)
