"""Layouts inside of programs: copies to another order, and memory read as another shape."""

import math
from collections.abc import Sequence

from tests.fuzz.answers.steps.graph import FreeGraph
from tests.property.random_programs.graphs import Graph, Node, Step
from xla_contract.ops.shaping.bitcast import BitcastAttributes
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_BYTES = (E.S8, E.U8, E.S16, E.U16, E.S32, E.U32, E.S64, E.U64)


def _laid(graph: Graph, kind: E, sizes: Sequence[int]) -> Shape:
    order = graph.chance.sample(range(len(sizes)), len(sizes))
    return Shape.parse(f"{Shape.array(kind, sizes)}{{{','.join(map(str, order))}}}")


def copy_to_layout(graph: Graph) -> Node | None:
    """A copy whose elements lie in another order."""
    node = graph.any()
    shape = _laid(graph, node.kind, node.sizes)
    return Node(graph.builder.instruction(Opcode.COPY, [node.op], declared=shape))


def bitcast_of_memory(graph: Graph) -> Node | None:
    """The memory of integers in one order, read as other dimensions in another order."""
    assert isinstance(graph, FreeGraph)
    if graph.is_for_jaxlib:
        return None
    chance, node = graph.chance, graph.any(_BYTES)
    laid = graph.builder.instruction(
        Opcode.COPY, [node.op], declared=_laid(graph, node.kind, node.sizes)
    )
    kind = chance.choice((node.kind, node.kind, *_BYTES))
    size = math.prod(node.sizes) * node.kind.bit_width
    if size % kind.bit_width:
        kind = node.kind
    left, sizes = size // kind.bit_width, []
    while left > 1 and len(sizes) < 4:
        sizes.append(chance.choice([n for n in range(1, min(left, 65) + 1) if left % n == 0]))
        left //= sizes[-1]
    sizes.insert(chance.randint(0, len(sizes)), left)
    shape = _laid(graph, kind, sizes)
    attributes = BitcastAttributes(shape.without_layout())
    return Node(graph.builder.instruction(Opcode.BITCAST, [laid], attributes, declared=shape))


STEPS: tuple[Step, ...] = (copy_to_layout, bitcast_of_memory)
