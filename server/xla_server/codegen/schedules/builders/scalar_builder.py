"""Evaluation of scalar computations inside of kernels that are not made by a schedule."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.builder import Body, Names
from xla_server.codegen.kernel_ir.expressions import Expression, Load, Memory, whole
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import GraphBuilder, applied
from xla_server.codegen.trace.elementwise import converted
from xla_server.codegen.trace.graph import Node, Reduction
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation


@dataclasses.dataclass(eq=False)
class Named(Node):
    """A variable of the kernel."""

    name: str
    type: str


class _ScalarBuilder(GraphBuilder):
    """Evaluates nodes in one body."""

    def __init__(self, body: Body, names: Names, known: Mapping[Node, Expression]) -> None:
        super().__init__(())
        self._top, self._names = body, names
        self._values.update(known)

    def values_of(self, nodes: Sequence[Node]) -> list[Expression]:
        return [self._value(node) for node in nodes]

    def _origin(self, what: Node | Reduction) -> None:
        """Return None: evaluations in kernels without a schedule are not counted."""

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[Expression]]:
        raise AssertionError("a computation on scalars has no reductions")


def evaluate(
    body: Body, names: Names, nodes: Sequence[Node], known: Mapping[Node, Expression]
) -> list[Expression]:
    """Return the values of nodes, evaluated in a body from those of their variables."""
    return _ScalarBuilder(body, names, known).values_of(nodes)


def apply_computation(
    body: Body,
    names: Names,
    computation: HloComputation,
    arguments: Sequence[tuple[Expression, ElementType]],
    results: Sequence[ElementType],
) -> list[Expression]:
    """Return the results of a computation on elements, evaluated in a body.

    Its parameters and results may have other types: `arguments` are values with their element
    types, `results` are the element types that its results are converted to.
    """
    tracer = Tracer(RULES, {})
    known: dict[Node, Expression] = {Named("", value.type): value for value, _ in arguments}
    kinds = [parameter.shape.element_type for parameter in computation.parameters]
    operands = [
        converted(tracer, variable, element_type, kind)
        for variable, (_, element_type), kind in zip(known, arguments, kinds, strict=True)
    ]
    shapes = computation.root.shape.leaves()
    nodes = [
        converted(tracer, node, own.element_type, wanted)
        for node, own, wanted in zip(
            tracer.call(computation, operands), shapes, results, strict=True
        )
    ]
    return evaluate(body, names, nodes, known)


def element_variable(name: str, element_type: ElementType) -> Named:
    """Return a variable with the computed value of an element."""
    return Named(name, KERNEL_TYPE[element_type].computed)


def load_element(element_type: ElementType, memory: Memory, index: int | Expression) -> Expression:
    """Return the computed value of an element."""
    kind = KERNEL_TYPE[element_type]
    return applied(kind.widen, Load(memory, Type(kind.storage), whole(index)), kind.computed)


def store_element(
    body: Body, element_type: ElementType, memory: Memory, index: Expression, value: Expression
) -> None:
    """Store a computed value as an element."""
    kind = KERNEL_TYPE[element_type]
    body.store(memory, kind.storage, index, applied(kind.narrow, value, kind.storage))
