"""Elementwise operations of all opcodes and element types, as steps of random modules."""

from collections.abc import Iterable

from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.operands import BY_JAX
from tests.fuzz.answers.steps.graph import FreeGraph
from tests.property.random_programs.graphs import FLOATS, KINDS, Graph, Node, Step, converted
from xla_client import ops
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

_TOTAL = (
    ops.eq_total_order,
    ops.ne_total_order,
    ops.lt_total_order,
    ops.le_total_order,
    ops.gt_total_order,
    ops.ge_total_order,
)
_UNSIGNED = {4: E.U4, 8: E.U8, 16: E.U16, 32: E.U32, 64: E.U64}
_CONVERSIONS = (*drawing.INTEGERS, *drawing.FLOATS, E.PRED, E.C64, E.C128)


_WITHOUT_JAXLIB = frozenset({*BY_JAX, Opcode.MULHI})


def _chosen(graph: Graph, opcodes: Iterable[Opcode]) -> Opcode:
    assert isinstance(graph, FreeGraph)
    without = _WITHOUT_JAXLIB if graph.is_for_jaxlib else frozenset()
    return graph.chance.choice([opcode for opcode in opcodes if opcode not in without])


def any_unary(graph: Graph) -> Node | None:
    """An operation of one array."""
    opcode = _chosen(graph, UNARY)
    node = graph.any()
    if node.kind not in UNARY[opcode].members:
        node = graph.any([kind for kind in KINDS if kind in UNARY[opcode].members])
    return Node(graph.builder.instruction(opcode, [node.op]))


def any_binary(graph: Graph) -> Node | None:
    """An operation of two arrays."""
    opcode = _chosen(graph, BINARY)
    node = graph.any()
    if node.kind not in BINARY[opcode].members:
        node = graph.any([kind for kind in KINDS if kind in BINARY[opcode].members])
    pair = [node.op, graph.like(node).op]
    graph.chance.shuffle(pair)
    return Node(graph.builder.instruction(opcode, pair))


def total_order(graph: Graph) -> Node | None:
    """A comparison in which zeros have signs and NaNs are ordered."""
    node = graph.any(FLOATS)
    return Node(graph.chance.choice(_TOTAL)(node.op, graph.like(node).op))


def any_convert(graph: Graph) -> Node | None:
    """A conversion between any two types."""
    node = graph.any()
    kinds = (*_CONVERSIONS, *drawing.NARROW) if node.kind in drawing.NARROW else _CONVERSIONS
    return Node(converted(node.op, graph.chance.choice(kinds)))


def stochastic_convert(graph: Graph) -> Node | None:
    """A conversion that rounds by random bits."""
    node = graph.any(FLOATS)
    bits = graph.shaped(_UNSIGNED[node.kind.bit_width], node.sizes)
    kind = graph.chance.choice((E.S8, E.S16, E.S32, E.BF16, E.F16))
    return Node(ops.stochastic_convert_type(node.op, bits.op, kind))


def reduce_precision(graph: Graph) -> Node | None:
    """A rounding to fewer bits."""
    node = graph.any(FLOATS)
    exponent, mantissa = graph.chance.randint(1, 11), graph.chance.randint(0, 23)
    return Node(ops.reduce_precision(node.op, exponent, mantissa))


def bits_of(graph: Graph) -> Node | None:
    """The bits of a number as numbers of another width."""
    node = graph.any((*FLOATS, *drawing.INTEGERS))
    kind = graph.chance.choice((E.U8, E.S8, E.U16, E.S16, E.U32, E.S32, E.U64, E.S64))
    if kind.bit_width > node.kind.bit_width:
        factor = kind.bit_width // node.kind.bit_width
        node = graph.shaped(node.kind, (*node.sizes[:2], factor))
    return Node(ops.bitcast_convert_type(node.op, kind))


def complex_parts(graph: Graph) -> Node | None:
    """A complex number made of two real ones."""
    node = graph.any((E.F32, E.F64))
    return Node(graph.builder.instruction(Opcode.COMPLEX, [node.op, graph.like(node).op]))


STEPS: tuple[Step, ...] = (
    *(any_unary,) * 4,
    *(any_binary,) * 4,
    any_convert,
    any_convert,
    total_order,
    stochastic_convert,
    reduce_precision,
    bits_of,
    complex_parts,
)
