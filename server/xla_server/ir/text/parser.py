"""HLO text -> HloModule: our own, and what XLA writes before and after its optimisations.

Names may have a % before them, operands may have their shapes, attributes come in any order.
A computation's signature, comments, and attributes without meaning for the value may stand there.
A called computation may be written where it is called, as in `to_apply={ ... }`.
Shapes may be absent as in XLA's parser, where operands and attributes say it, an operand may be an
instruction without a name, there may be no header, and `f32[2,3] constant(1)` repeats a number.
"""

import re
from typing import NoReturn

from xla_contract.errors import XlaError
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import MAX_NESTING, ProgramShape, Shape
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule, require_length
from xla_server.ir.text.asynchronous import split_opcode, wrap
from xla_server.ir.text.attributes import Attributes, read_attributes
from xla_server.ir.text.forms.form import OfShape
from xla_server.ir.text.forms.table import FORMS, PLAIN
from xla_server.ir.text.header import Header, read_header
from xla_server.ir.text.literals import read_literal
from xla_server.ir.text.names import UniqueNames
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.unmodelled_fields import decoration_of
from xla_server.ir.verification.verifier import verify

_OPCODES = {str(opcode): opcode for opcode in Opcode}
_SHAPED = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})
"""Opcodes whose attributes stand between the parentheses, and whose shape must be stated."""

_ENTRY = re.compile(r"ENTRY(?=[\s%])")
_ROOT = re.compile(r"ROOT(?=[\s%])")
_SHAPE = re.compile(r"b?\(|[a-z][a-z0-9]*\[")
_CALL = re.compile(r"[a-z][a-z0-9\-]*\(")
"""The beginning, after its shape, of an operand that is itself an instruction."""

_UNSTATED = Shape.tuple_of(())
"""The shape of an instruction until it is inferred."""


def parse_module(text: str) -> HloModule:
    """The module written in HLO text, verified.

    Raises InvalidArgumentError naming line:column, the rule and what was found, and as `verify` and
    `checkpoint` do. Constants whose elements were left out ({...}) are refused.
    """
    module = _Parser(text).module()
    verify(module)
    return module


class _Parser:
    """State of the parser: the module's parts so far, while its computations are read in order."""

    def __init__(self, text: str) -> None:
        self._reader = HloReader(text)
        self._computations: dict[str, HloComputation] = {}
        self._in_order: list[HloComputation] = []
        self._names = UniqueNames()
        self._length = 0
        self._depth = 0

    def module(self) -> HloModule:
        reader = self._reader
        header = read_header(reader)
        entry = None
        last = None
        reader.space()
        while reader.at < len(reader.text):
            start = reader.at
            marked = self._skip_word(_ENTRY)
            if marked and entry is not None:
                reader.refuse("one computation may be the entry", "another one", start)
            last = self._computation()
            entry = last if marked else entry
            reader.space()
        entry = entry or last
        if entry is None:
            reader.fail("a computation is")
        return self._finished(header, entry)

    def _finished(self, header: Header, entry: HloComputation) -> HloModule:
        computations, names = self._in_order, UniqueNames(self._computations)
        for number, computation in enumerate(computations):
            computation.id = number
            if self._computations.get(computation.name) is not computation:
                computation.name = names.new(computation.name)
        signature = entry.program_shape
        layout = header.layout or signature
        shape = ProgramShape(
            tuple(parameter.with_default_layout() for parameter in layout.parameters),
            layout.result.with_default_layout(),
            signature.parameter_names,
        )
        module = HloModule(header.name, 0, computations, entry, shape, None, header.grid)
        if header.is_scheduled:
            _add_schedule(header.decoration, module)
        module.decoration = decoration_of(header.decoration, ())
        return module

    def _computation(self) -> HloComputation:
        reader = self._reader
        start = reader.at
        name = reader.name("the name of a computation")
        if name in self._computations:
            reader.refuse("computation names must be unique", repr(name), start)
        result = self._stated_result() if reader.peek("(") else None
        computation = self._body(name, start)
        if reader.skip(","):
            reader.expect("execution_thread=")
            computation.execution_thread = reader.string().decode(errors="replace")
        if result is not None and not result.compatible(computation.root.shape):
            reader.refuse(
                f"a computation must have the result stated before it, {_clip(result)}",
                _clip(computation.root.shape),
                start,
            )
        self._computations[name] = computation
        self._in_order.append(computation)
        return computation

    def _stated_result(self) -> Shape:
        """Read a signature, whose parameters do not matter, as in XLA's parser."""
        reader = self._reader

        def parameter() -> None:
            reader.name("the name of a parameter")
            reader.skip(":")
            reader.shape()

        reader.listed("(", parameter, ")")
        reader.expect("->")
        return reader.shape()

    def _body(self, name: str, start: int) -> HloComputation:
        """Read the instructions of a computation, in braces; its name is at `start`."""
        reader = self._reader
        reader.expect("{")
        known: dict[str, HloInstruction] = {}
        root = None
        while not reader.skip("}"):
            checkpoint()
            position = reader.at
            marked = self._skip_word(_ROOT)
            if marked and root is not None:
                reader.refuse("a computation may have one ROOT", "another one", position)
            self._length += 1
            require_length(self._length)
            last = self._instruction(known)
            root = last if marked else root
        instructions = list(known.values())
        if not instructions:
            reader.refuse("a computation must have an instruction", "none", start)
        return HloComputation(
            name, 0, instructions, root or instructions[-1], self._parameters(instructions, start)
        )

    def _called(self) -> HloComputation:
        """Read the name of a computation, or its instructions: then it is a new one."""
        reader = self._reader
        if not reader.peek("{"):
            rule = "called computations must come before their callers"
            return reader.known(reader.name, "a computation", self._computations, rule)
        if self._depth == MAX_NESTING:
            reader.fail(f"at most {self._depth} computations inside of computations are")
        self._depth += 1
        computation = self._body("_", reader.at)
        self._depth -= 1
        return self._added(computation)

    def _added(self, computation: HloComputation) -> HloComputation:
        """Add a computation that the text does not name: its name becomes unique in the end."""
        self._in_order.append(computation)
        return computation

    def _parameters(
        self, instructions: list[HloInstruction], start: int
    ) -> tuple[HloInstruction, ...]:
        parameters = [part for part in instructions if part.opcode is Opcode.PARAMETER]
        parameters.sort(key=lambda parameter: parameter.attributes.number)
        numbers = [parameter.attributes.number for parameter in parameters]
        if numbers != list(range(len(numbers))):
            self._reader.refuse(
                "parameter numbers must count from 0, each once", str(numbers[:8]), start
            )
        return tuple(parameters)

    def _instruction(self, known: dict[str, HloInstruction]) -> HloInstruction:
        reader = self._reader
        start = reader.at
        name = reader.name("an instruction or }")
        if name in known:
            reader.refuse("instruction names must be unique", repr(name), start)
        reader.expect("=")
        return self._value(name, known, 0)

    def _value(self, name: str, known: dict[str, HloInstruction], nesting: int) -> HloInstruction:
        """Read an instruction from its shape on; one that is an operand of another has no name."""
        reader = self._reader
        reader.space()
        stated = reader.shape() if _SHAPE.match(reader.text, reader.at) else None
        reader.space()
        start = reader.at
        word = reader.word("an opcode")
        # In text, names are unique within their computation only.
        new = HloInstruction(
            self._names.new(name or word), 0, Opcode.PARAMETER, stated or _UNSTATED
        )
        try:
            self._complete(new, word, known, start, nesting)
        except XlaError as error:
            raise error.at(word, name) from error.__cause__
        new.id = len(known)
        known[name or f"({new.id})"] = new
        return new

    def _complete(
        self,
        instruction: HloInstruction,
        word: str,
        known: dict[str, HloInstruction],
        start: int,
        nesting: int,
    ) -> None:
        """Read the part of an instruction after its opcode."""
        reader = self._reader
        opcode, wrapped = split_opcode(word, _OPCODES)
        if opcode is None:
            reader.refuse("an opcode must be one of HLO's", repr(word), start)
        definition(opcode)
        reader.expect("(")
        is_array = opcode is Opcode.CONSTANT and instruction.shape.rank > 0
        if is_array and not reader.peek("{"):
            # One number is written for all elements.
            opcode = Opcode.BROADCAST
            instruction.operands = (self._scalar(instruction.shape, known),)
        instruction.opcode = opcode
        form = FORMS.get(opcode, PLAIN)
        if instruction.shape is _UNSTATED and (form.of_shape is OfShape.ALL or opcode in _SHAPED):
            self._need_shape(start)
        if opcode is Opcode.PARAMETER:
            number = reader.integer("the number of a parameter")
            instruction.attributes = ParameterAttributes(number, instruction.shape.without_layout())
        elif opcode is Opcode.CONSTANT:
            instruction.attributes = ConstantAttributes(read_literal(reader, instruction.shape))
        elif not reader.peek(")"):
            operands = [self._operand(known, nesting)]
            while reader.skip(",") and not reader.peek(")"):
                operands.append(self._operand(known, nesting))
            instruction.operands = tuple(operands)
        reader.expect(")")
        shapes = [operand.shape for operand in instruction.operands]
        forms = [form] if wrapped is None else [form, FORMS.get(wrapped, PLAIN)]
        # Attributes after an operand belong to the instruction around it.
        read = Attributes() if nesting else read_attributes(reader, forms, self._called, known)
        instruction.control_predecessors = read.predecessors
        instruction.decoration = decoration_of(read.decoration, ())
        if wrapped is not None and opcode is Opcode.ASYNC_START:
            computation = self._wrapped(instruction, wrapped, read, start)
            read.called["calls"] = (computation,)
        instruction.called = read.called_by(form)
        if opcode not in _SHAPED:
            declared = instruction.shape
            if declared is _UNSTATED and form.of_shape is OfShape.ELEMENT_TYPE:
                declared = self._common_type(shapes, start)
            with reader.locating(start):
                instruction.attributes = read.record(form, declared, shapes)
        if instruction.shape is _UNSTATED:
            signatures = [called.program_shape for called in instruction.called]
            instruction.shape = infer_shape(opcode, shapes, instruction.attributes, signatures)

    def _common_type(self, operands: list[Shape], start: int) -> Shape:
        """Return the scalar shape of the operands' common element type; raises if they differ."""
        types = {operand.element_type for operand in operands}
        if len(types) != 1:
            self._need_shape(start)
        return Shape.scalar(types.pop())

    def _need_shape(self, start: int) -> NoReturn:
        self._reader.at = start
        self._reader.fail("the shape of the instruction is")

    def _scalar(self, shape: Shape, known: dict[str, HloInstruction]) -> HloInstruction:
        """Add a constant of one element of an array's type, whose number begins here."""
        scalar = Shape.scalar(shape.element_type)
        new = HloInstruction(self._names.new("constant"), len(known), Opcode.CONSTANT, scalar)
        new.attributes = ConstantAttributes(read_literal(self._reader, scalar))
        known[f"({new.id})"] = new
        return new

    def _wrapped(
        self, start: HloInstruction, opcode: Opcode, read: Attributes, position: int
    ) -> HloComputation:
        """The computation that a `<opcode>-start` calls."""
        with self._reader.locating(position):
            return self._added(wrap(start, opcode, read, self._names.new))

    def _operand(self, known: dict[str, HloInstruction], nesting: int) -> HloInstruction:
        reader = self._reader
        reader.space()
        start = reader.at
        shape = reader.shape() if _SHAPE.match(reader.text, start) else None
        reader.space()
        if _CALL.match(reader.text, reader.at):
            reader.at = start
            if nesting == MAX_NESTING:
                reader.fail(f"at most {nesting} operands inside of operands are")
            return self._value("", known, nesting + 1)
        name = reader.name("an operand")
        operand = known.get(name)
        if operand is None:
            reader.refuse("operands must come before their users", repr(name), start)
        if shape is not None and not shape.compatible(operand.shape):
            reader.refuse(
                f"an operand must have the shape of its instruction, {operand.shape}",
                str(shape),
                start,
            )
        return operand

    def _skip_word(self, pattern: re.Pattern[str]) -> bool:
        self._reader.space()
        found = pattern.match(self._reader.text, self._reader.at)
        if found is not None:
            self._reader.at = found.end()
        return found is not None


def _clip(shape: Shape) -> str:
    text = str(shape)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _add_schedule(decoration: hlo_pb2.HloModuleProto, module: HloModule) -> None:
    """Say that every computation that is not fused runs in the order it is written."""
    fused = module.fused()
    decoration.schedule.SetInParent()
    for computation in module.computations:
        if computation not in fused:
            decoration.schedule.sequences[computation.id].instruction_ids.extend(
                (computation.id << 32) | instruction.id for instruction in computation.instructions
            )
