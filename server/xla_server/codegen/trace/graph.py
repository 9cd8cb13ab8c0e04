"""The scalar graph of a kernel: the computation of one element of a result.

Nodes are compared by identity; the tracer makes each only once. A node depends on the loop
variables of its indices, and is computed in the innermost of their loops.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from xla_server.codegen.kernel_ir.expressions import Const
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace.kernel_types import KernelType
from xla_server.ir import traversal
from xla_server.ir.analysis.affine import Affine, Computed, Variable


class Node:
    """A scalar. `type` is the name of its computed type."""

    type: str

    @functools.cached_property
    def variables(self) -> frozenset[Variable]:
        """The loop variables the value depends on."""
        _compute_variables(self.inputs())
        return self._own_variables()

    def _own_variables(self) -> frozenset[Variable]:
        """Return the variables; those of all inputs must be known."""
        return frozenset[Variable]().union(*(node.variables for node in self.inputs()))

    def inputs(self) -> Iterable["Node"]:
        """The nodes this one reads."""
        return ()


@dataclasses.dataclass(eq=False)
class Immediate(Node):
    """A constant."""

    constant: Const

    def __post_init__(self) -> None:
        self.type = self.constant.type

    @classmethod
    def of(cls, type: str, *parts: int) -> "Immediate":
        """Return a constant by its integer, or by the bits of its float or of its two floats."""
        return cls(Const(Type(type), parts))


@dataclasses.dataclass(eq=False)
class Load(Node):
    """An element of a buffer of `size`. If `guard` is false, any other element is read instead."""

    argument: int
    kernel_type: KernelType
    offset: Affine
    size: int
    guard: Node | None = None

    def __post_init__(self) -> None:
        self.type = self.kernel_type.computed

    def _own_variables(self) -> frozenset[Variable]:
        guard = frozenset[Variable]() if self.guard is None else self.guard.variables
        return guard | variables_of(self.offset)

    def inputs(self) -> Iterable[Node]:
        """The nodes this one reads."""
        if self.guard is not None:
            yield self.guard
        yield from nodes_of(self.offset)


@dataclasses.dataclass(eq=False)
class Apply(Node):
    """A function of kernels applied to scalars."""

    function: str
    operands: tuple[Node, ...]
    type: str

    def inputs(self) -> Iterable[Node]:
        """The nodes this one reads."""
        return self.operands


@dataclasses.dataclass(eq=False)
class Position(Node):
    """An index as a number of type i64."""

    index: Affine
    type: str = "i64"

    def _own_variables(self) -> frozenset[Variable]:
        return variables_of(self.index)

    def inputs(self) -> Iterable[Node]:
        """The nodes this one reads."""
        return nodes_of(self.index)


def position_of(node: Node) -> Affine | None:
    """Return the index that a node is, through exact conversions of integers; None for others."""
    bits = 63
    while isinstance(node, Apply) and node.function == f"to_{node.type}" and node.type[0] in "iu":
        bits = min(bits, Type(node.type).byte_size * 8 - (node.type[0] == "i"))
        (node,) = node.operands
    if isinstance(node, Position) and node.index.low >= 0 and node.index.high < 1 << bits:
        return node.index
    return None


@dataclasses.dataclass(eq=False)
class Accumulator(Node):
    """The value that a reduction has accumulated so far, inside its loop."""

    type: str
    reduction_variables: tuple[Variable, ...]

    def _own_variables(self) -> frozenset[Variable]:
        return frozenset(self.reduction_variables)


@dataclasses.dataclass(frozen=True, slots=True)
class Reassociation:
    """A function that combines numbers of a type in any order.

    `ordered` combines them in order, and both combine `neutral` with any x into x.
    """

    function: str
    ordered: str
    neutral: Immediate


@dataclasses.dataclass(eq=False)
class Reduction:
    """A loop over `loops`, outermost first, that combines accumulators with inputs.

    `combined` are functions of `accumulators`. With a function that `reassociates`, the only
    combined value is that function of the accumulator and `element`, and the order is free. Without
    loops, `combined` combine the elements of all `iterations`.
    """

    loops: tuple[Variable, ...]
    initial: tuple[Node, ...]
    accumulators: tuple[Accumulator, ...]
    combined: tuple[Node, ...]
    reassociates: Reassociation | None = None
    element: Node | None = None
    iterations: int = 1

    @functools.cached_property
    def variables(self) -> frozenset[Variable]:
        """The loop variables that the results depend on, without those of the reduction itself."""
        inside = frozenset[Variable]().union(
            *(node.variables for node in (*self.combined, *self.initial))
        )
        return inside - set(self.loops)


@dataclasses.dataclass(eq=False)
class ReductionResult(Node):
    """One of the results of a reduction."""

    reduction: Reduction
    number: int

    def __post_init__(self) -> None:
        self.type = self.reduction.initial[self.number].type

    def _own_variables(self) -> frozenset[Variable]:
        return self.reduction.variables

    def inputs(self) -> Iterable[Node]:
        """The nodes this one reads."""
        return (*self.reduction.initial, *self.reduction.combined)


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """An element of a result written once for each iteration of the variables it depends on."""

    argument: int
    kernel_type: KernelType
    offset: Affine
    value: Node


def as_stored(node: Node, kind: KernelType) -> Node:
    """Return a select on the stored bits, if a node only selects between loads.

    Conversions of the operands would cost more than the select, and make all NaNs of a type equal.
    """
    found: dict[Node, Node] = {}
    is_choice = isinstance(node, Apply) and node.function == "select"
    waiting = [node] if is_choice and kind.widen is not None else []
    while waiting:
        part = waiting[-1]
        match part:
            case _ if part in found:
                pass
            case Load(kernel_type=loaded) if loaded == kind:
                unchanged = KernelType(kind.storage, kind.storage)
                found[part] = Load(part.argument, unchanged, part.offset, part.size, part.guard)
            case Immediate():
                found[part] = Apply(kind.narrow or "", (part,), kind.storage)
            case Apply(function="select", operands=(test, *parts)):
                missing = [each for each in parts if each not in found]
                if missing:
                    waiting += missing
                    continue
                chosen = (found[each] for each in parts)
                found[part] = Apply("select", (test, *chosen), kind.storage)
            case Apply(function=kind.widen, operands=(bits,)):
                found[part] = bits
            case _:
                return node
        waiting.pop()
    return Apply(kind.widen or "", (found[node],), kind.computed) if found else node


def _compute_variables(nodes: Iterable[Node]) -> None:
    """Compute the variables of nodes and of their transitive inputs, inputs first."""
    waiting = [node for node in nodes if "variables" not in vars(node)]
    while waiting:
        node = waiting[-1]
        unknown = [part for part in node.inputs() if "variables" not in vars(part)]
        if unknown:
            waiting += unknown
        else:
            # Cached from now on: a node that was pushed twice is looked up the second time.
            _ = node.variables
            waiting.pop()


def roots_of(stores: Iterable[Store]) -> list[Node]:
    """The nodes of the values that stores write, and of their indices."""
    return [node for store in stores for node in (store.value, *nodes_of(store.offset))]


def reached(
    roots: Iterable[Node], inputs: Callable[[Node], Iterable[Node]] = lambda node: node.inputs()
) -> Iterator[Node]:
    """Return roots and the nodes that are reached from them through `inputs`, each once."""
    return traversal.reached(roots, inputs)


def own_inputs(node: Node) -> Iterable[Node]:
    """The direct inputs of a node; a result of a reduction has none, as the reduction has them."""
    return () if isinstance(node, ReductionResult) else node.inputs()


def variables_of(index: Affine) -> frozenset[Variable]:
    """The loop variables an index depends on."""
    own = frozenset(atom for atom in index.atoms() if isinstance(atom, Variable))
    return own.union(*(node.variables for node in nodes_of(index)))


def nodes_of(index: Affine) -> list[Node]:
    """The nodes that an index's computed parts read."""
    return [cast(Node, atom.node) for atom in index.atoms() if isinstance(atom, Computed)]
