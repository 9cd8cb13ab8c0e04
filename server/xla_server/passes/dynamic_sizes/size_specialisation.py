"""Specialisation of a part of a computation of dynamic shape to given sizes, as a static program.

The sizes of its operands are known, and all others must follow from these and from a few integers.
evaluator/dynamic_shapes.py defines an operation at given sizes. Its functions cut and fill
operands, for which slices and pads are written here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from xla_contract.errors import XlaError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.dynamic_operands import UPDATED_IN_PLACE, fit_operands
from xla_server.evaluator.dynamic_shapes import ANY_SIZE, actual_shape, has_dynamic_shapes, is_full
from xla_server.evaluator.plan import in_order
from xla_server.ir.analysis.side_effects import SIDE_EFFECTS, instructions_inside, is_effectful
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import callees_first
from xla_server.ops.evaluation import TOKEN, Array, Token
from xla_server.passes.dynamic_sizes.known_sizes import KnownSizes
from xla_server.passes.dynamic_sizes.sized_operations import (
    SIZED_OPERATIONS,
    Operation,
    UnspecialisedError,
    updated,
)
from xla_server.passes.dynamic_sizes.sized_values import (
    Known,
    PaddedExtents,
    SizedArray,
    array_of,
    extents_of,
    packed,
    unpacked,
    whole_shape,
)
from xla_server.passes.framework.editor import Editor, copy_computation, drop_uncalled

_CONTROL = frozenset({Opcode.CALL, Opcode.CONDITIONAL, Opcode.FUSION, Opcode.WHILE})

HOST = (ANY_SIZE - _CONTROL - SIZED_OPERATIONS.keys() - {Opcode.CUSTOM_CALL}) | {
    *SIDE_EFFECTS,
    Opcode.ALL_GATHER_DONE,
    Opcode.ALL_REDUCE_DONE,
    Opcode.COLLECTIVE_PERMUTE_DONE,
}
"""Operations of the host between programs: they wait for other parties, or have an order."""

MAX_INSTRUCTIONS = 4096
MAX_REPETITIONS = 4
"""Largest number of inlined instructions in one program: the larger of the first number and the
second times those of the module. Each computation may call the next one twice, and so on. A larger
program is run call by call, which can be cancelled."""


class SizeSpecialiser:
    """Writes instructions of `module` at known sizes; `numbers` are values known before the run."""

    def __init__(self, module: HloModule, numbers: KnownSizes) -> None:
        self._module = dataclasses.replace(module, computations=[])
        self.editor = Editor(self._module)
        self._numbers = numbers
        self._computations: list[HloComputation] = []
        self._copies: dict[HloComputation, HloComputation] = {}
        self._parameters: list[HloInstruction] = []
        self._written = 0
        length = sum(1 for _ in module.instructions())
        self._max_instructions = max(MAX_INSTRUCTIONS, MAX_REPETITIONS * length)
        self._keeps_hidden = any(map(_may_show_hidden, module.instructions()))

    def parameter(self, shape: Shape, extents: PaddedExtents) -> Known:
        """Add parameters to the program: the whole arrays of a value of this shape."""
        if isinstance(extents, tuple):
            pairs = zip(shape.tuple_shapes, extents, strict=True)
            return tuple(self.parameter(part, inside) for part, inside in pairs)
        if extents is None:
            return TOKEN
        made = self.editor.parameter(len(self._parameters), whole_shape(shape, extents))
        self._parameters.append(made)
        return SizedArray(self.editor, made, extents.sizes)

    def value(self, i: HloInstruction, operands: Sequence[Known]) -> Known:
        """Write an instruction for these operands; return its value.

        Raises UnspecialisedError if it needs a number that is unknown before the run or is an
        operation of the host, and the errors of the operation at these sizes.
        """
        made = self.editor.drain()
        self.editor.put_back(made)
        try:
            return result_of(self._value(i, operands))
        except (UnspecialisedError, XlaError):
            self.editor.drain()
            self.editor.put_back(made)
            raise

    def module(self, results: Sequence[HloInstruction]) -> HloModule:
        """The program of the written instructions, with these results."""
        root = self.editor.add(Opcode.TUPLE, results)
        instructions, parameters = self.editor.drain(), tuple(self._parameters)
        entry = HloComputation(self._module.entry.name, 0, instructions, root, parameters)
        written = dataclasses.replace(
            self._module,
            computations=[*self._computations, entry],
            entry=entry,
            entry_program_shape=entry.program_shape,
        )
        drop_uncalled(written)
        for number, computation in enumerate(written.computations):
            computation.id = number
        return written

    def _value(self, i: HloInstruction, operands: Sequence[Known]) -> Deep[Known]:
        if i.opcode in _CONTROL:
            value: Known = yield self._control(i, operands)
            return value
        rule = SIZED_OPERATIONS.get(i.opcode)
        if rule is None:
            return self._computed(i, operands)
        return rule(Operation(i, operands, self.editor, self._numbers))

    # Control flow.

    def _control(self, i: HloInstruction, operands: Sequence[Known]) -> Deep[Known]:
        is_static = not any(map(has_dynamic_shapes, i.called))
        if is_static and all(map(is_full, i.operands, operands)):
            opcodes = (part.opcode for part in instructions_inside(i))
            if Opcode.RNG_GET_AND_UPDATE_STATE in opcodes:
                # Random states belong to the instructions of the original program.
                raise UnspecialisedError
            inside = [packed(self.editor, operand) for operand in operands]
            return self._copied(i, inside, i.attributes, _static(i.shape))
        value: Known
        if i.opcode is Opcode.WHILE:
            value = yield self._while(i, operands)
        elif i.opcode is Opcode.CONDITIONAL:
            value = yield self._conditional(i, operands)
        else:
            value = yield self._called(i.called[0], operands)
        return value

    def _called(self, computation: HloComputation, arguments: Sequence[Known]) -> Deep[Known]:
        known = dict(zip(computation.parameters, arguments, strict=True))
        for part in in_order(computation.instructions):
            if part not in known:
                self._written += 1
                if self._written > self._max_instructions:
                    raise UnspecialisedError
                operands = [known[operand] for operand in part.operands]
                known[part] = yield self._value(part, operands)
        return known[computation.root]

    def _while(self, i: HloInstruction, operands: Sequence[Known]) -> Deep[Known]:
        """Write a loop whose state keeps its sizes."""
        state = self._bounded(operands[0])
        extents, shape = extents_of(state), i.operands[0].shape
        body, after = yield self._computation(i.called[0], extents)
        condition, _ = yield self._computation(i.called[1], extents)
        if after != extents:
            raise UnspecialisedError
        inside = [packed(self.editor, state)]
        made = self._made(i, inside, i.attributes, whole_shape(shape, extents))
        made.called = (body, condition)
        return unpacked(self.editor, made, extents)

    def _conditional(self, i: HloInstruction, operands: Sequence[Known]) -> Deep[Known]:
        """Write a conditional whose branches return the same sizes."""
        operands = [operands[0], *map(self._bounded, operands[1:])]
        branches = []
        for called, operand in zip(i.called, operands[1:], strict=True):
            branches.append((yield self._computation(called, extents_of(operand))))
        extents = branches[0][1]
        if any(others != extents for _, others in branches):
            raise UnspecialisedError
        inside = [packed(self.editor, operand) for operand in operands]
        made = self._made(i, inside, i.attributes, whole_shape(i.shape, extents))
        made.called = tuple(branch for branch, _ in branches)
        return unpacked(self.editor, made, extents)

    def _computation(
        self, computation: HloComputation, extents: PaddedExtents
    ) -> Deep[tuple[HloComputation, PaddedExtents]]:
        """A computation of one parameter at these sizes, and the sizes of its result."""
        outside = self.editor.drain()
        try:
            shape = whole_shape(computation.parameters[0].shape, extents)
            parameter = self.editor.parameter(0, shape)
            inside = [unpacked(self.editor, parameter, extents)]
            result = self._bounded((yield self._called(computation, inside)))
            root = packed(self.editor, result)
            made = self.editor.computation(
                computation.name, self.editor.drain(), root, (parameter,)
            )
        except XlaError as error:
            # The computation may never run.
            raise UnspecialisedError from error
        finally:
            self.editor.drain()
            self.editor.put_back(outside)
        self._computations.append(made)
        return made, extents_of(result)

    def _bounded(self, value: Known) -> Known:
        """The value without padding elements, which loops and branches treat differently."""
        if self._keeps_hidden or isinstance(value, Token):
            return value
        if isinstance(value, tuple):
            return tuple(map(self._bounded, value))
        return value.plain

    # Computing.

    def _computed(self, i: HloInstruction, operands: Sequence[Known]) -> Known:
        if i.opcode in HOST or any(map(has_dynamic_shapes, i.called)):
            raise UnspecialisedError
        if i.opcode is Opcode.CUSTOM_CALL and _has_dynamic_edges(i):
            # Kernels of custom calls have one size; the target's evaluator has any.
            raise UnspecialisedError
        arrays = [operand.plain for operand in operands if isinstance(operand, SizedArray)]
        if len(arrays) < len(operands):
            raise UnspecialisedError
        attributes, shape = i.attributes, i.shape
        if not all(map(is_full, i.operands, arrays)):
            if i.opcode in UPDATED_IN_PLACE:
                return updated(i, arrays)
            # A SizedArray has the functions of bounds.py that `fit_operands` needs.
            fitting, attributes = fit_operands(i, cast(list[Array], arrays))
            shape = actual_shape(i, fitting, attributes)
            arrays = cast(list[SizedArray], fitting)
        inside = [array.whole for array in arrays]
        if i.opcode is Opcode.BITCAST:
            # The only operation that depends on its operand's layout.
            inside = [
                self.editor.add(Opcode.COPY, [array], shape=_static(operand.shape))
                for array, operand in zip(inside, i.operands, strict=True)
            ]
        return self._copied(i, inside, _static_sizes(attributes), _static(shape))

    def _copied(
        self, i: HloInstruction, operands: Sequence[HloInstruction], attributes: Any, shape: Shape
    ) -> Known:
        """Copy an instruction of static shape, with all that it calls; return its value."""
        made = self._made(i, operands, attributes, shape)
        for each in callees_first(i.called):
            if each not in self._copies:
                self._copies[each] = copy_computation(each, self._copies)
                self._computations.append(self._copies[each])
        made.called = tuple(self._copies[each] for each in i.called)
        return self._parts(made)

    def _made(
        self, i: HloInstruction, operands: Sequence[HloInstruction], attributes: Any, shape: Shape
    ) -> HloInstruction:
        made = self.editor.copy(i, operands)
        made.attributes, made.shape, made.control_predecessors = attributes, shape, ()
        return made

    def _parts(self, made: HloInstruction) -> Known:
        """Return the value of an instruction of static shape, unpacked if it is a tuple."""
        if made.shape.is_tuple:
            return tuple(
                self._parts(self.editor.element(made, number))
                for number in range(len(made.shape.tuple_shapes))
            )
        return array_of(self.editor, made) if made.shape.is_array else TOKEN


def has_effect(i: HloInstruction) -> bool:
    """Return whether an instruction, or one that it calls, has an effect outside the program."""
    return _is_seen(i) or any(map(_is_seen, instructions_inside(i)))


def _may_show_hidden(i: HloInstruction) -> bool:
    """Return whether elements of an operand beyond its sizes may be elements of the result."""
    return i.opcode in (Opcode.SET_DIMENSION_SIZE, Opcode.CUSTOM_CALL) and not all(
        operand.shape.is_static for operand in i.operands
    )


def _has_dynamic_edges(i: HloInstruction) -> bool:
    return not all(part.shape.is_static for part in (i, *i.operands))


def _is_seen(i: HloInstruction) -> bool:
    return i.opcode in HOST or is_effectful(i)


def _static(shape: Shape) -> Shape:
    """The shape at its bounds."""
    if shape.is_tuple:
        return Shape.tuple_of([_static(part) for part in shape.tuple_shapes])
    return shape if shape.is_static else dataclasses.replace(shape, dynamic_dimensions=())


def _static_sizes(attributes: Any) -> Any:
    """Attributes without their dynamic dimensions."""
    if not dataclasses.is_dataclass(attributes) or isinstance(attributes, type):
        return attributes
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(attributes):
        value = getattr(attributes, field.name)
        if isinstance(value, Shape) and not value.is_static:
            changed[field.name] = _static(value)
        elif field.name == "dynamic_dimensions" and value:
            changed[field.name] = ()
    return dataclasses.replace(attributes, **changed) if changed else attributes
