"""The text after an instruction's operands: attributes in any order."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.text.decorations import IGNORED, read_decoration
from xla_server.ir.text.forms.form import REQUIRED, Form
from xla_server.ir.text.scanner import IDENTIFIER, HloReader

_INSTRUCTION = re.compile(rf"ROOT\s|%?{IDENTIFIER.pattern}\s*=")
"""The beginning, after a {, of a computation that is written where it is called."""


@dataclasses.dataclass(slots=True)
class Attributes:
    """Attributes as written: values by name, computations by name, and decorations."""

    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    called: dict[str, tuple[HloComputation, ...]] = dataclasses.field(default_factory=dict)
    predecessors: tuple[HloInstruction, ...] = ()
    decoration: hlo_pb2.HloInstructionProto = dataclasses.field(
        default_factory=hlo_pb2.HloInstructionProto
    )

    def record(self, form: Form, shape: Shape, operands: Sequence[Shape]) -> Any:
        """The attribute record of an instruction of this form, declared shape and operands."""
        values = []
        for attribute in form.attributes:
            value = self.values.get(attribute.name, attribute.default)
            if attribute.of_operands is not None and attribute.name not in self.values:
                value = attribute.of_operands(operands)
            if value is REQUIRED:
                raise InvalidArgumentError(f"{attribute.name} must be said, got none")
            values.append(value)
        return form.make(shape, *values)

    def called_by(self, form: Form) -> tuple[HloComputation, ...]:
        """The called computations in the order of the opcode."""
        return tuple(part for name in form.call_names for part in self.called.get(name, ()))


def read_attributes(
    reader: HloReader,
    forms: Sequence[Form],
    read_called: Callable[[], HloComputation],
    known: Mapping[str, HloInstruction],
) -> Attributes:
    """Read `, name=value ...` up to the end of the instruction.

    `read_called` reads a called computation: its name, or its instructions in braces. Attributes of
    the forms take precedence over those that any instruction may have. Raises InvalidArgumentError
    for an unknown one, unless it is known not to affect the value.
    """
    read = Attributes()
    seen: set[str] = set()
    while reader.skip(","):
        start = reader.at
        name = reader.word("the name of an attribute")
        reader.expect("=")
        if name in seen:
            reader.refuse("an attribute may be said once", repr(name), start)
        seen.add(name)
        kinds = (each.kind for form in forms for each in form.attributes if each.name == name)
        kind = next(kinds, None)
        if name in IGNORED or any(name in form.ignored for form in forms):
            reader.ignore_value()
        elif kind is not None:
            read.values[name] = kind.read(reader)
        elif any(name in form.call_names for form in forms):
            read.called[name] = _read_computations(reader, read_called)
        elif name == "control-predecessors":
            read.predecessors = tuple(reader.braced(lambda: _read_known(reader, known)))
        elif not read_decoration(reader, name, read.decoration):
            reader.refuse("the opcode must have the attribute", repr(name), start)
    return read


def _read_computations(
    reader: HloReader, read_called: Callable[[], HloComputation]
) -> tuple[HloComputation, ...]:
    reader.space()
    start = reader.at
    is_list = reader.skip("{")
    if is_list:
        reader.space()
        is_list = not _INSTRUCTION.match(reader.text, reader.at)
        reader.at = start
    return tuple(reader.braced(read_called)) if is_list else (read_called(),)


def _read_known(reader: HloReader, known: Mapping[str, HloInstruction]) -> HloInstruction:
    rule = "control predecessors must come before their users"
    return reader.known(reader.name, "an instruction", known, rule)
