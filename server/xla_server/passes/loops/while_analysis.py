"""Analysis of while loops: state, loop invariants, number of iterations."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rearrange, renew_operands
from xla_server.passes.framework.queries import splat

_D = ComparisonDirection
_SWAPPED = {_D.LT: _D.GT, _D.GT: _D.LT, _D.LE: _D.GE, _D.GE: _D.LE, _D.EQ: _D.EQ, _D.NE: _D.NE}


def callers(module: HloModule) -> Counter[HloComputation]:
    """Return the number of calls of each computation; an instruction may call it twice."""
    return Counter(called for i in module.instructions() for called in i.called)


@dataclasses.dataclass(frozen=True)
class WhileLoop:
    """A while whose state is a tuple that is only read by element, in the condition by `tests`."""

    instruction: HloInstruction
    body: HloComputation
    condition: HloComputation
    tests: tuple[HloInstruction, ...]

    @property
    def size(self) -> int:
        """The number of elements of the state."""
        return len(self.instruction.shape.tuple_shapes)

    def initial(self, index: int) -> HloInstruction | None:
        """Return the initial value of an element; None if the operand is no tuple instruction."""
        (start,) = self.instruction.operands
        return start.operands[index] if start.opcode is Opcode.TUPLE else None

    @functools.cached_property
    def _arguments(self) -> dict[HloInstruction, HloInstruction]:
        """Parameters of fused computations -> the operands of the fusions."""
        parts = (*self.body.instructions, *self.condition.instructions)
        return {
            parameter: operand
            for part in parts
            if part.opcode is Opcode.FUSION
            for parameter, operand in zip(part.called[0].parameters, part.operands, strict=True)
        }

    def seen(self, part: HloInstruction) -> HloInstruction:
        """Return the instruction that computes a value, looking through fusions."""
        while True:
            (first, *_) = part.operands or (None,)
            if part in self._arguments:
                part = self._arguments[part]
            elif part.opcode is Opcode.FUSION and part.shape.is_array:
                part = part.called[0].root
            elif (
                part.opcode is Opcode.GET_TUPLE_ELEMENT
                and first is not None
                and first.opcode is Opcode.FUSION
                and first.called[0].root.opcode is Opcode.TUPLE
            ):
                part = first.called[0].root.operands[part.attributes.index]
            else:
                return part

    def invariants(self) -> set[int]:
        """The elements of the state that the body returns unchanged."""
        parameter = self.body.parameters[0]
        return {
            index
            for index, part in enumerate(self.body.root.operands)
            if is_element(part, parameter) and part.attributes.index == index
        }


def loop_of(i: HloInstruction) -> WhileLoop | None:
    """The loop of a while instruction; None unless its state has the usual form."""
    if i.opcode is not Opcode.WHILE or not i.shape.is_tuple:
        return None
    body, condition = i.called
    if body.root.opcode is not Opcode.TUPLE:
        return None
    readers: list[HloInstruction] = []
    for computation in (body, condition):
        (parameter,) = computation.parameters
        readers = [part for part in computation.instructions if parameter in part.operands]
        if any(part.opcode is not Opcode.GET_TUPLE_ELEMENT for part in readers):
            return None
    return WhileLoop(i, body, condition, tuple(readers))


def is_element(part: HloInstruction, parameter: HloInstruction) -> bool:
    """Return whether an instruction is a get-tuple-element of this tuple."""
    return part.opcode is Opcode.GET_TUPLE_ELEMENT and part.operands[0] is parameter


def resize(
    computation: HloComputation,
    state: Shape,
    numbers: dict[int, int],
    root: HloInstruction,
    editor: Editor,
    handed_in: Sequence[HloInstruction] = (),
) -> None:
    """Change the state type of a computation: element `old` becomes element `numbers[old]`.

    The last elements of the new state replace the instructions `handed_in`. `root` becomes the
    root; elements without a new index must have no users left.
    """
    (parameter,) = computation.parameters
    new = editor.parameter(0, state)
    elements: dict[HloInstruction, HloInstruction] = {parameter: new}
    for part in computation.instructions:
        if is_element(part, parameter) and part.attributes.index in numbers:
            elements[part] = editor.element(new, numbers[part.attributes.index])
    for number, part in enumerate(handed_in, len(state.tuple_shapes) - len(handed_in)):
        elements[part] = editor.element(new, number)
    kept = [part for part in computation.instructions if part is not parameter]
    for part in (*kept, root):
        if part not in elements:
            renew_operands(part, elements)
    computation.parameters = (new,)
    computation.instructions = [new, *kept]
    computation.root = elements.get(root, root)
    rearrange(computation)


def trip_count(loop: WhileLoop) -> int | None:
    """Return the number of iterations, if a counter of known start, step and end decides it."""
    test = loop.seen(loop.condition.root)
    always = splat(test)
    if always is not None:
        return None if always else 0
    if test.opcode is not Opcode.COMPARE or test.shape.rank:
        return None
    direction = test.attributes.direction
    lhs, rhs = map(loop.seen, test.operands)
    iterations = _counted(loop, lhs, rhs, direction)
    return _counted(loop, rhs, lhs, _SWAPPED[direction]) if iterations is None else iterations


def _counted(
    loop: WhileLoop, counter: HloInstruction, limit: HloInstruction, relation: ComparisonDirection
) -> int | None:
    if not is_element(counter, loop.condition.parameters[0]):
        return None
    index = counter.attributes.index
    kind = counter.shape.element_type
    step = _step(loop, index)
    end = _value(loop, limit)
    initial = loop.initial(index)
    start = None if initial is None else splat(initial)
    if not kind.is_integer or kind.bit_width < 8:
        return None
    if step is None or end is None or start is None:
        return None
    iterations = _distance(int(start), step, end, relation)
    if iterations is None:
        return None
    low = -(1 << (kind.bit_width - 1)) if kind.is_signed_integer else 0
    last = int(start) + iterations * step
    return iterations if low <= last < low + (1 << kind.bit_width) else None


def _step(loop: WhileLoop, index: int) -> int | None:
    """Return the constant that the body adds to an element; None for other updates."""
    new = loop.seen(loop.body.root.operands[index])
    parameter = loop.body.parameters[0]
    if new.opcode not in (Opcode.ADD, Opcode.SUBTRACT):
        return None
    lhs, rhs = map(loop.seen, new.operands)
    if new.opcode is Opcode.ADD and not is_element(lhs, parameter):
        lhs, rhs = rhs, lhs
    amount = splat(rhs)
    if amount is None or not is_element(lhs, parameter) or lhs.attributes.index != index:
        return None
    return int(amount) if new.opcode is Opcode.ADD else -int(amount)


def _value(loop: WhileLoop, limit: HloInstruction) -> int | None:
    """Return a number that the condition compares with: a constant, or a constant invariant."""
    if is_element(limit, loop.condition.parameters[0]):
        index = limit.attributes.index
        initial = loop.initial(index)
        if initial is None or index not in loop.invariants():
            return None
        limit = initial
    value = splat(limit)
    return None if value is None or limit.shape.element_type.is_floating else int(value)


def _distance(start: int, step: int, end: int, relation: ComparisonDirection) -> int | None:
    """Return the number of steps from the start to the first number that fails the relation."""
    if relation is _D.NE:
        if start == end:
            return 0
        is_met = step and (end - start) % step == 0 and (end - start) // step > 0
        return (end - start) // step if is_met else None
    if relation is _D.EQ:
        return 0 if start != end else None
    if relation in (_D.GT, _D.GE):
        start, step, end = -start, -step, -end
    if relation in (_D.LE, _D.GE):
        end += 1
    if start >= end:
        return 0
    return -((start - end) // step) if step > 0 else None
