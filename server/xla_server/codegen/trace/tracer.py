"""Tracing: the scalar graph of one element of a computation's result."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from xla_contract.errors import InternalError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.graph import (
    Apply,
    Immediate,
    Load,
    Node,
    Position,
    Reduction,
    position_of,
)
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.evaluator.evaluation_cost import COUNTED
from xla_server.ir.analysis.affine import Affine, Computed, Variable, linear, variable
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction

T = TypeVar("T")

MAX_ELEMENT_COPIES = 5000
"""Limit of a kernel's elements beyond each instruction's first: fusions have far fewer."""

Index: TypeAlias = tuple[Affine, ...]

NEVER = Immediate.of("b1", 0)
"""Guard of an element that is never needed."""

Origins: TypeAlias = dict[Node | Reduction, HloInstruction]
"""The HLO instruction of which a node, or the loop body of a reduction, evaluates an element."""

Rule: TypeAlias = Callable[["Tracer", HloInstruction, Index, int], Node | Deep[Node]]
"""Returns one element of an instruction's result (of element `number` of its tuple) at an index.

A rule that needs elements of operands is a deep function (ir/explicit_stack.py).
"""


class TooManyCopiesError(InternalError):
    """A kernel needs more elements than MAX_ELEMENT_COPIES allows."""


class Tracer:
    """Makes the nodes of a kernel, each once.

    `arguments` maps instructions whose values are in buffers to the kernel's argument numbers;
    `rules` compute the others.
    """

    def __init__(
        self,
        rules: Mapping[Opcode, Rule],
        arguments: Mapping[HloInstruction, int],
        origins: Origins | None = None,
        ends: dict[HloInstruction, list[int]] | None = None,
    ) -> None:
        """Record in `origins` which instruction each node or reduction was made for.

        Tracers of the same instructions may share `ends`: concatenate -> the ends of its operands.
        """
        self._ends = {} if ends is None else ends
        self._rules = rules
        self._origins = origins
        self._arguments = dict(arguments)
        self._bound: dict[HloInstruction, Node] = {}
        self._made: dict[tuple[object, ...], Node] = {}
        self.bindings: dict[HloInstruction, HloInstruction] = {}
        """Parameter of an entered computation -> its operand."""
        self._met: set[HloInstruction] = set()
        self._copies = 0
        self.reductions: dict[tuple[object, ...], Reduction] = {}
        self.max_unrolled = 0
        """Longest loop of a reduction, in iterations, that is unrolled whatever it reads."""
        self.guard: Node | None = None
        """If the guard is false, the element is not needed, and may not exist."""

    def value(self, instruction: HloInstruction, index: Index, number: int = 0) -> Node:
        """The element of `instruction` at `index`. Rules yield `element` or `operand` instead."""
        return result_of(self.element(instruction, index, number))

    def element(self, instruction: HloInstruction, index: Index, number: int = 0) -> Deep[Node]:
        """Return the element of `instruction` at `index`, as a deep function."""
        while instruction.opcode is Opcode.GET_TUPLE_ELEMENT and instruction not in self._arguments:
            number = instruction.attributes.index
            instruction = instruction.operands[0]
        bound = self._bound.get(instruction)
        if bound is not None:
            return bound
        key = (instruction, index, number, self.guard)
        node = self._made.get(key)
        if node is None:
            node = self._made[key] = yield self._make(instruction, index, number)
        return node

    def operand(self, instruction: HloInstruction, number: int, index: Index) -> Deep[Node]:
        """Return the element of an operand at `index`, as a deep function."""
        return self.element(instruction.operands[number], index)

    def operands(self, instruction: HloInstruction, count: int, index: Index) -> Deep[list[Node]]:
        """Return the elements of the first `count` operands at `index`, as a deep function."""
        found = []
        for number in range(count):
            node: Node = yield self.operand(instruction, number, index)
            found.append(node)
        return found

    def reduced(self, size: int, name: str) -> Variable:
        """Return the loop of a reduction over a dimension."""
        return Variable(size, name, size <= self.max_unrolled)

    def apply(self, function: str, operands: Sequence[Node], type: str) -> Node:
        """A kernel function applied to nodes."""
        key = (function, tuple(operands), type)
        node = self._made.get(key)
        if node is None:
            node = self._made[key] = Apply(function, tuple(operands), type)
        return node

    def select(self, predicate: Node, on_true: Node, on_false: Node) -> Node:
        """Return one of two values of one type; both are computed, unless the first never is."""
        if predicate is NEVER:
            return on_false
        is_complex = on_true.type in ("c64", "c128")
        name = f"select_{on_true.type}" if is_complex else "select"
        return self.apply(name, [predicate, on_true, on_false], on_true.type)

    def rounded(self, node: Node, element_type: ElementType) -> Node:
        """The value of the element type nearest to a computed one."""
        kernel_type = KERNEL_TYPE[element_type]
        if kernel_type.is_exact:
            return node
        return self.apply(f"round_{element_type.text}", [node], kernel_type.computed)

    def both(self, left: Node | None, right: Node | None) -> Node | None:
        """Return the conjunction of two tests; None is the test that always holds."""
        if left is None or right is None:
            return right if left is None else left
        if left is NEVER or right is NEVER:
            return NEVER
        return self.apply("bit_and", [left, right], "b1")

    def guarded(self, guard: Node | None, call: Deep[T]) -> Deep[T]:
        """Return the result of `call`, for which elements are needed only if `guard` holds."""
        outer = self.guard
        self.guard = self.both(outer, guard)
        try:
            result: T = yield call
            return result
        finally:
            self.guard = outer

    def inside(self, index: Affine, low: int, high: int) -> Node | None:
        """Return the test low <= index < high, None if it always holds, NEVER if it never does."""
        if index.high < low or index.low >= high:
            return NEVER
        found: Node | None = None
        position = Position(index)
        if index.low < low:
            found = self.apply("ge", [position, integer(low)], "b1")
        if index.high >= high:
            below = self.apply("lt", [position, integer(high)], "b1")
            found = self.both(found, below)
        return found

    def clamped(self, node: Node, high: int) -> Affine:
        """A computed integer as an index, clamped to 0 .. high; a constant stays constant."""
        if high <= 0:
            return Affine(0)
        if isinstance(node, Immediate):
            return Affine(min(max(node.constant.parts[0], 0), high))
        known = position_of(node)
        if known is not None and known.low >= 0 and known.high <= high:
            return known
        if node.type == "u64":
            # Too large for i64 is too large for any array.
            limit = self.apply("minimum", [node, Immediate.of("u64", high)], "u64")
            wide = self.apply("to_i64", [limit], "i64")
        else:
            wide = self.apply("to_i64", [node], "i64")
        raised = self.apply("maximum", [wide, integer(0)], "i64")
        return variable(Computed(self.apply("minimum", [raised, integer(high)], "i64"), 0, high))

    def call(self, computation: HloComputation, arguments: Sequence[Node]) -> tuple[Node, ...]:
        """The results of a computation on scalars. Rules yield `called` instead."""
        return result_of(self.called(computation, arguments))

    def called(
        self, computation: HloComputation, arguments: Sequence[Node]
    ) -> Deep[tuple[Node, ...]]:
        """Return the results of a computation on scalars, as a deep function."""
        inner = Tracer(self._rules, {})
        inner._bound = dict(zip(computation.parameters, arguments, strict=True))
        results = []
        for part in computation.results:
            node: Node = yield inner.element(part, ())
            results.append(node)
        return tuple(results)

    def enter(self, computation: HloComputation, operands: Sequence[HloInstruction]) -> None:
        """Bind a fusion's parameters to its operands."""
        self.bindings.update(zip(computation.parameters, operands, strict=True))

    def ends_of(self, concatenate: HloInstruction) -> list[int]:
        """Return the index at which each operand of a concatenate ends in the result."""
        ends = self._ends.get(concatenate)
        if ends is None:
            d = concatenate.attributes.dimension
            sizes = (operand.shape.dimensions[d] for operand in concatenate.operands)
            ends = self._ends[concatenate] = list(itertools.accumulate(sizes))
        return ends

    def _make(self, instruction: HloInstruction, index: Index, number: int) -> Deep[Node]:
        argument = self._arguments.get(instruction)
        if argument is not None:
            shape = instruction.shape
            offset, kernel_type = linear(index, shape.dimensions), KERNEL_TYPE[shape.element_type]
            return Load(argument, kernel_type, offset, shape.element_count, self.guard)
        self._count(instruction)
        made = self._rules[instruction.opcode](self, instruction, index, number)
        node: Node = made if isinstance(made, Node) else (yield made)
        if self._origins is not None and instruction.opcode in COUNTED:
            origin = self.reductions.get((instruction, index, self.guard), node)
            self._origins.setdefault(origin, instruction)
        return node

    def _count(self, instruction: HloInstruction) -> None:
        """Count an element beyond the first; raises TooManyCopiesError above MAX_ELEMENT_COPIES."""
        self._copies += instruction in self._met
        self._met.add(instruction)
        if self._copies > MAX_ELEMENT_COPIES:
            raise TooManyCopiesError(
                f"a kernel must compute at most {MAX_ELEMENT_COPIES} elements more than it has "
                f"instructions, got more at {instruction.opcode} %{instruction.name}"
            )


def integer(number: int) -> Immediate:
    """A constant of type i64."""
    return Immediate.of("i64", number)
