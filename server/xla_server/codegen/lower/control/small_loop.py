"""Lowering of a while loop on a few scalars to one kernel that has the loop inside.

An iteration in the executor costs more than the few operations of such a loop. Its scalars are
variables of the kernel; arrays that it passes through are read in place, and arrays of which it
updates a few elements are written in place.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.element_updates import chain_of, update_stores
from xla_server.codegen.schedules.builders.scalar_builder import Named
from xla_server.codegen.schedules.nests.scalar_loop import Register, ScalarLoop, scalar_loop_kernel
from xla_server.codegen.trace.graph import Apply, Load, Node, Position, Store, reached, roots_of
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, TooManyCopiesError, Tracer, integer
from xla_server.ir.analysis.affine import Affine, Variable, linear, multi_index
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.target.kernel_tuning import SmallLoops

_VECTOR_ELEMENTS = 4
"""Length of a state's array from which kernels are vectorised: `max_array_work` then applies."""

_TESTS = ("eq", "ge", "lt")
"""Functions of tests of positions."""


class _UnsuitableError(Exception):
    """The loop needs more than scalars."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceLoop:
    """A loop that a device executes: its iterations, if known, and its thunk's builder."""

    trip_count: int | None
    thunk: Callable[..., KernelThunk]


def lower_small_loop(
    lowering: Lowering,
    i: HloInstruction,
    initial: Sequence[Value],
    is_invariant: Sequence[bool],
    on_device: DeviceLoop | None = None,
) -> tuple[Value, ...] | None:
    """Add one kernel for a while; return the values of its state, or None if it is not small.

    `is_invariant` says for each element of the state whether the body returns it unchanged. A loop
    `on_device` with little total work does not poll the cancellation flag.
    """
    if not _may_be_small(i, lowering.target.tuning.small_loops):
        return None
    loop = _SmallLoop(lowering, i, initial, is_invariant, on_device)
    try:
        return loop.lowered()
    except (_UnsuitableError, TooManyCopiesError):
        return None


def _may_be_small(i: HloInstruction, tuned: SmallLoops) -> bool:
    count = 0
    for computation in i.called:
        if computation.root.opcode is Opcode.TUPLE and computation is i.called[1]:
            return False
        for part in computation.instructions:
            count += len(part.called[0].instructions) if part.opcode is Opcode.FUSION else 1
            if has_side_effect(part) or part.control_predecessors:
                return False
    return count <= tuned.max_instructions


class _SmallLoop:
    """Lowering of one loop, which is changed only once the whole loop is known to fit."""

    def __init__(
        self,
        lowering: Lowering,
        i: HloInstruction,
        initial: Sequence[Value],
        is_invariant: Sequence[bool],
        on_device: DeviceLoop | None,
    ) -> None:
        self._lowering, self.tuned = lowering, lowering.target.tuning.small_loops
        self._instruction = i
        self._body, self._condition = i.called
        # A value may have another rank: reshapes share values.
        self._shapes = tuple(i.shape.leaves())
        self._initial = initial
        self._is_invariant = is_invariant
        self._on_device = on_device
        self._buffers: dict[Value, int] = {}
        self._constants: dict[Value, HloInstruction] = {}
        # The instructions of the body that compute the next value of each element of the state.
        self._roots: Sequence[HloInstruction] = (self._body.root,)
        if i.shape.is_tuple:
            is_made = self._body.root.opcode is Opcode.TUPLE
            self._roots = self._body.root.operands if is_made else ()
        self._chains = [self._chain(number) for number in range(len(initial))]

    def lowered(self) -> tuple[Value, ...]:
        """Add the loop's thunk; return the values of its state. Raises _UnsuitableError."""
        lowering, name = self._lowering, self._instruction.name
        results = tuple(
            self._initial[n] if is_invariant else lowering.new(self._shapes[n], f"{name}.{n}")
            for n, is_invariant in enumerate(self._is_invariant)
        )
        registers = [self._variables(number) for number in range(len(results))]
        if sum(map(len, registers)) > self.tuned.max_registers:
            raise _UnsuitableError
        arrays = {
            number: self._buffer(value)
            for number, (value, variables) in enumerate(zip(results, registers, strict=True))
            if not variables
        }
        tracer = _StateTracer(self, self._instruction, registers, arrays)
        condition = tracer.value(self._condition.root, ())
        tracer.walk(self._body)
        stores = [
            store
            for number, chain in enumerate(self._chains)
            if number in arrays
            for update in chain
            for store in update_stores(tracer, update, arrays[number])
        ]
        parts = [
            self._register(tracer, number, element, variable, results[number])
            for number, variables in enumerate(registers)
            for element, variable in enumerate(variables)
        ]
        roots = [condition, *(part.next for part in parts if part.next is not None)]
        time = _time(stores, roots)
        has_vectors = max(map(len, registers)) >= _VECTOR_ELEMENTS
        if time > (self.tuned.max_array_work if has_vectors else self.tuned.max_work):
            raise _UnsuitableError
        thunk, trip_count = kernel_thunk, None
        if self._on_device is not None:
            thunk, trip_count = self._on_device.thunk, self._on_device.trip_count
        is_short = trip_count is not None and time * trip_count <= self.tuned.max_counted_work
        flag = None if is_short else len(self._buffers)
        loop = ScalarLoop(parts, condition, stores, tracer.order(), flag, time, lowering.target)
        self._add(loop, results, registers, thunk)
        return results

    def _add(
        self,
        loop: ScalarLoop,
        results: Sequence[Value],
        registers: Sequence[Sequence[Named]],
        thunk: Callable[..., KernelThunk],
    ) -> None:
        kernel = scalar_loop_kernel(loop)
        for value, constant in self._constants.items():
            self._lowering.constants[value] = constant.attributes.literal.value
        changed = [number for number, same in enumerate(self._is_invariant) if not same]
        updates = tuple(results[number] for number in changed if not registers[number])
        for number in changed:
            if not registers[number]:
                self._lowering.copy(results[number], self._initial[number])
        # All variables are read before the first result is written.
        in_place = tuple(
            (results[number], self._initial[number]) for number in changed if registers[number]
        )
        name, arguments = self._instruction.name, list(self._buffers)
        self._lowering.add(thunk(name, kernel, arguments, in_place=in_place, updates=updates))

    def _chain(self, number: int) -> list[HloInstruction]:
        """The updates that make the next value of an array from itself, in order."""
        if number >= len(self._roots):
            return []
        (state,) = self._body.parameters
        chain, part = chain_of(self._roots[number], self.tuned.max_elements)
        is_element = (
            part.opcode is Opcode.GET_TUPLE_ELEMENT
            and part.operands[0] is state
            and part.attributes.index == number
        )
        return chain if is_element or part is state else []

    def _variables(self, number: int) -> list[Named]:
        """Variables for an element of the state; none if it remains an array."""
        if not self._roots:
            raise _UnsuitableError
        shape = self._shapes[number]
        if shape.rank and (self._is_invariant[number] or self._chains[number]):
            return []
        if shape.element_count > self.tuned.max_elements or not shape.element_count:
            raise _UnsuitableError
        kind = KERNEL_TYPE[shape.element_type].computed
        return [Named(f"s{number}_{n}", kind) for n in range(shape.element_count)]

    def _register(
        self, tracer: "_StateTracer", number: int, element: int, variable: Named, result: Value
    ) -> Register:
        shape = self._shapes[number]
        kernel_type = KERNEL_TYPE[shape.element_type]
        source = self._buffer(self._initial[number])
        if self._is_invariant[number]:
            return Register(variable, kernel_type, element, source)
        new = tracer.value(self._roots[number], multi_index(Affine(element), shape.dimensions))
        return Register(variable, kernel_type, element, source, self._buffer(result), new)

    def constant(self, i: HloInstruction) -> int:
        """The number of the buffer with a constant array."""
        value = self._lowering.new(i.shape, i.name)
        self._constants[value] = i
        return self._buffer(value)

    def _buffer(self, value: Value) -> int:
        return self._buffers.setdefault(value, len(self._buffers))


class _StateTracer(Tracer):
    """Traces body and condition, whose parameters stand for variables and arrays."""

    def __init__(
        self,
        loop: _SmallLoop,
        i: HloInstruction,
        registers: Sequence[Sequence[Named]],
        arrays: dict[int, int],
    ) -> None:
        super().__init__(RULES, {})
        self._loop = loop
        # Variables have no addresses: an element at the position of a loop is selected from all.
        self.max_unrolled = loop.tuned.max_elements
        self._states = {part for computation in i.called for part in computation.parameters}
        self._registers = registers
        self._arrays = arrays

    def walk(self, computation: HloComputation) -> None:
        """Make the nodes of small results, in the order in which the loop computes them."""
        for part in computation.instructions:
            if (
                part.opcode in RULES
                and part.opcode is not Opcode.PARAMETER
                and part.shape.is_array
                and part.shape.element_count <= self._loop.tuned.max_elements
            ):
                for element in range(part.shape.element_count):
                    self.value(part, multi_index(Affine(element), part.shape.dimensions))

    def order(self) -> list[Node]:
        """All nodes, each after those it reads."""
        return list(self._made.values())

    def _make(self, instruction: HloInstruction, index: Index, number: int) -> Deep[Node]:
        if instruction in self._states:
            return self._state_element(instruction.shape, index, number)
        if instruction not in self._arguments:
            is_constant = instruction.opcode is Opcode.CONSTANT
            if instruction.opcode not in RULES or (is_constant and instruction.shape.is_tuple):
                raise _UnsuitableError
            if is_constant and instruction.shape.element_count > 1:
                self._arguments[instruction] = self._loop.constant(instruction)
        node: Node = yield super()._make(instruction, index, number)
        return node

    def _state_element(self, state: Shape, index: Index, number: int) -> Node:
        shape = state.tuple_shapes[number] if state.is_tuple else state
        offset = linear(index, shape.dimensions)
        if number in self._arrays:
            array, kernel_type = self._arrays[number], KERNEL_TYPE[shape.element_type]
            return Load(array, kernel_type, offset, shape.element_count, self.guard)
        variables = self._registers[number]
        if not offset.terms:
            # If a guard is false, the index may be out of bounds.
            return variables[min(max(offset.constant, 0), len(variables) - 1)]
        chosen: Node = variables[0]
        for n, variable in enumerate(variables[1:], 1):
            here = self.apply("eq", [Position(offset), integer(n)], "b1")
            chosen = self.select(here, variable, chosen)
        return chosen


def _time(stores: Sequence[Store], roots: Sequence[Node]) -> int:
    """Return the time of an iteration in additions, with reductions multiplied by their lengths.

    Tests of positions of unrolled loops, and selections by them, have constant outcomes.
    """
    found = 1
    for node in reached([*roots_of(stores), *roots]):
        times = math.prod(v.size for v in node.variables)
        if _is_known(node):
            continue
        if isinstance(node, Apply):
            found += cost_of(node.function) * times
        elif isinstance(node, Load):
            found += CostClass.ACCESS * times
    return found


def _is_known(node: Node) -> bool:
    """Return whether the outcome of a test, or of its selection, is known once loops unroll."""
    test = node.operands[0] if isinstance(node, Apply) and node.function == "select" else node
    positions = test.operands if isinstance(test, Apply) and test.function in _TESTS else ()
    indices = [each.index for each in positions if isinstance(each, Position)]
    return bool(indices) and all(
        isinstance(atom, Variable) and atom.unrolled for index in indices for atom in index.atoms()
    )


def elements_of(tree: Tree) -> tuple[Value, ...] | None:
    """The arrays of a state that is an array or a flat tuple of arrays; None for any other."""
    parts = tree if isinstance(tree, tuple) else (tree,)
    found = tuple(part for part in parts if isinstance(part, Value))
    return found if len(found) == len(parts) else None
