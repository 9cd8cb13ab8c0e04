"""Random modules whose every value is a result, so that each instruction is checked by itself.

An instruction is compared with the evaluator's answer for the operands that the platform itself
computed. No difference propagates, so any operation may follow any other, with values of any kind.
"""

import dataclasses
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.sweep.draws import drawing
from tests.property.random_programs.graphs import KINDS, Graph, Node, Step, ranged
from xla_contract.errors import XlaError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto

MAX_STEPS = 16
NARROW_SHARE = 0.1
"""Share of programs with floats of 8 bits and fewer: jaxlib has no code for some operations."""

JAXLIB_SHARE = 0.8
"""Share of programs without operations that jaxlib's CPU backend has no code for."""

LONG_SHARE = 0.15
LONG = (1, 2, 7, 16, 17, 33, 65)
"""Share of programs with longer dimensions, for vectors and what remains of them, and lengths."""

EXTREME_SHARE = 0.3
"""Share of programs whose floats include the largest and smallest normal numbers."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A module with its arguments, and where it came from."""

    origin: str
    proto: hlo_pb2.HloModuleProto
    arguments: list[Any]

    @property
    def instruction_count(self) -> int:
        """Instructions of all computations, without parameters, tuples and their elements."""
        plain = ("parameter", "tuple", "get-tuple-element")
        return sum(
            instruction.opcode not in plain
            for computation in self.proto.computations
            for instruction in computation.instructions
        )


class FreeGraph(Graph):
    """An entry computation in which any value may be an operand of anything.

    Called computations are drawn as exact ones: what they compute inside is not seen.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance, itertools.count(), 0)
        self._extra: tuple[E, ...] = ()
        if chance.random() < NARROW_SHARE:
            self._extra = tuple(chance.sample(drawing.NARROW, 2))
        self.is_for_jaxlib = chance.random() < JAXLIB_SHARE
        self._is_extreme = chance.random() < EXTREME_SHARE
        if chance.random() < LONG_SHARE:
            self.lengths = LONG

    def any(self, kinds: Sequence[E] = KINDS, *, exact: bool = True) -> Node:
        """Return a value of one of these types; of a type beyond them where that is KINDS."""
        if kinds is KINDS:
            kinds = (*KINDS, E.C128, E.U16, E.U4, *self._extra, *self._extra)
        return super().any(kinds, exact=False)

    def shaped(self, kind: E, sizes: Sequence[int], *, exact: bool = True) -> Node:
        """Return a value of this type and these dimensions, exact or not."""
        return super().shaped(kind, sizes, exact=False)

    def fresh(self, kind: E, sizes: Sequence[int]) -> Node:
        """Return an argument, or sometimes a constant or an iota."""
        if self.chance.random() < 0.2:
            return super().fresh(kind, sizes)
        return self.argument(self.array(kind, sizes))

    def array(self, kind: E, sizes: Sequence[int], *, special: bool = True) -> Any:
        """Draw values: NaN, infinities and signed zeros are among them if `special`."""
        seed = self.chance.randrange(1 << 30)
        special = special and self.chance.random() < 0.6
        array = drawing.array(kind, sizes, seed, special=special)
        if not self._is_extreme or not kind.is_floating:
            return ranged(array)
        return _without_subnormals(array)

    def argument(self, array: Any) -> Node:
        """Add a parameter whose argument is this array."""
        shape = Shape.array(E.from_dtype(array.dtype), array.shape)
        op = self.builder.parameter(len(self.arguments), shape)
        self.arguments.append(array)
        return self.kept(op)

    def nested(self) -> Graph:
        """Return the graph of a called computation."""
        return Graph(self.chance, self.names, self.depth + 1)


def _without_subnormals(array: Any) -> Any:
    import ml_dtypes

    numbers: Any = ml_dtypes
    size = np.abs(array.astype(np.float64))
    bound = float(numbers.finfo(array.dtype).smallest_normal)
    return np.where((size < bound) & (size > 0), np.zeros((), array.dtype), array)


def graph_case(seed: int, steps: Sequence[Step]) -> Case:
    """Draw a module of up to MAX_STEPS steps."""
    chance = random.Random(seed)
    graph = FreeGraph(chance)
    for _ in range(chance.randint(1, MAX_STEPS)):
        try:
            graph.grow([chance.choice(steps)], 1)
        except XlaError:
            # A step that chose values which the shape rule does not take: another one is drawn.
            continue
    if not graph.nodes:
        graph.any()
    proto = with_all_results(graph.builder.build().proto)
    proto.name = f"seed_{seed}"
    return Case(f"seed {seed}", with_layouts(proto, chance), graph.arguments)


def with_all_results(proto: hlo_pb2.HloModuleProto) -> hlo_pb2.HloModuleProto:
    """Return the module with every array of its entry, but parameters, in its result."""
    changed = hlo_pb2.HloModuleProto()
    changed.CopyFrom(proto)
    entry = entry_of(changed)
    root = entry.instructions.add(name="all", opcode="tuple", id=_fresh_id(entry))
    root.shape.element_type = E.TUPLE
    for instruction in entry.instructions[:-1]:
        shape = shape_from_proto(instruction.shape)
        if shape.is_array and instruction.opcode != "parameter":
            root.operand_ids.append(instruction.id)
            root.shape.tuple_shapes.add().CopyFrom(instruction.shape)
    entry.root_id = root.id
    entry.program_shape.result.CopyFrom(root.shape)
    changed.host_program_shape.result.CopyFrom(root.shape)
    return changed


def with_layouts(proto: hlo_pb2.HloModuleProto, chance: random.Random) -> hlo_pb2.HloModuleProto:
    """Give every array of the entry's signature, with one chance in three, a random layout."""
    if chance.random() < 2 / 3:
        return proto
    entry = entry_of(proto)
    by_number = {i.parameter_number: i for i in entry.instructions if i.opcode == "parameter"}
    for number, shape in enumerate(proto.host_program_shape.parameters):
        shape.CopyFrom(_laid(shape, chance))
        by_number[number].shape.CopyFrom(shape)
        entry.program_shape.parameters[number].CopyFrom(shape)
    return proto


def _laid(proto: Any, chance: random.Random) -> Any:
    shape = shape_from_proto(proto)
    if not shape.is_array:
        return proto
    order = list(range(shape.rank))
    chance.shuffle(order)
    text = f"{shape.without_layout()}{{{','.join(map(str, order))}}}"
    return shape_to_proto(Shape.parse(text))


def entry_of(proto: hlo_pb2.HloModuleProto) -> hlo_pb2.HloComputationProto:
    """Return the entry computation of a module."""
    return next(c for c in proto.computations if c.id == proto.entry_computation_id)


def _fresh_id(computation: hlo_pb2.HloComputationProto) -> int:
    return max(instruction.id for instruction in computation.instructions) + 1
