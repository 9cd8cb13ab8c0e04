"""HloModule -> HLO text, as XLA writes it in its long form."""

from collections.abc import Iterable, Iterator

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.text.decorations import decoration_texts
from xla_server.ir.text.forms.form import REQUIRED, Form
from xla_server.ir.text.forms.table import FORMS, PLAIN
from xla_server.ir.text.header import header_text
from xla_server.ir.text.literals import print_literal
from xla_server.ir.text.names import UniqueNames
from xla_server.ir.text.scanner import IDENTIFIER


def print_module(module: HloModule) -> str:
    """The module in HLO text; `parse_module` and XLA read it back.

    Names are changed where they would not be read back: letters, digits and `_.-` remain.
    Decorations are written as far as HLO text has a notation for them.
    """
    return "\n".join(_lines(module)) + "\n"


def _lines(module: HloModule) -> Iterator[str]:
    names = _Names()
    yield from header_text(_readable(module.name), module)
    for computation in module.computations:
        entry = "ENTRY " if computation is module.entry else ""
        yield f"{entry}%{names.of(computation)} {_signature(computation, names)} {{"
        for instruction in computation.instructions:
            checkpoint()
            root = "ROOT " if instruction is computation.root else ""
            yield f"  {root}{_instruction_text(instruction, names)}"
        thread = computation.execution_thread
        yield f'}}, execution_thread="{thread}"' if thread else "}"
        yield ""


class _Names:
    """Names that can be read, one for each computation and one for each instruction."""

    def __init__(self) -> None:
        self._names: dict[HloComputation | HloInstruction, str] = {}
        self._given = {HloComputation: UniqueNames(), HloInstruction: UniqueNames()}

    def of(self, part: HloComputation | HloInstruction) -> str:
        """The name of `part`, the same at each call."""
        if part not in self._names:
            self._names[part] = self._given[type(part)].new(_readable(part.name))
        return self._names[part]


def _readable(name: str) -> str:
    if IDENTIFIER.fullmatch(name):
        return name
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    return kept if IDENTIFIER.fullmatch(kept) else f"_{kept}"


def _signature(computation: HloComputation, names: _Names) -> str:
    parameters = (
        f"{names.of(parameter)}: {parameter.shape.without_layout()}"
        for parameter in computation.parameters
    )
    return f"({', '.join(parameters)}) -> {computation.root.shape.without_layout()}"


def _instruction_text(instruction: HloInstruction, names: _Names) -> str:
    inside = ", ".join(f"%{names.of(operand)}" for operand in instruction.operands)
    if instruction.opcode is Opcode.CONSTANT:
        inside = print_literal(instruction.attributes.literal)
    elif instruction.opcode is Opcode.PARAMETER:
        inside = str(instruction.attributes.number)
    parts = [f"%{names.of(instruction)} = {instruction.shape} {instruction.opcode}({inside})"]
    form = FORMS.get(instruction.opcode, PLAIN)
    parts += _attribute_texts(form, instruction)
    parts += _call_texts(form, instruction, names)
    if instruction.control_predecessors:
        listed = _listed(instruction.control_predecessors, names)
        parts.append(f"control-predecessors={listed}")
    if instruction.decoration is not None:
        parts += decoration_texts(instruction.decoration)
    return ", ".join(parts)


def _attribute_texts(form: Form, instruction: HloInstruction) -> Iterator[str]:
    values = form.take(instruction.attributes)
    for attribute, value in zip(form.attributes, values, strict=True):
        is_stated = attribute.default is REQUIRED or value != attribute.default
        if is_stated or attribute.always:
            yield f"{attribute.name}={attribute.kind.write(value)}"


def _call_texts(form: Form, instruction: HloInstruction, names: _Names) -> Iterator[str]:
    single = form.calls
    is_choice = instruction.opcode is Opcode.CONDITIONAL
    if is_choice and instruction.operands[0].shape.element_type is ElementType.PRED:
        single = form.call_aliases
    elif form.call_list and instruction.called:
        yield f"{form.call_list}={_listed(instruction.called, names)}"
    # The later steps of an asynchronous call need not name the computation again.
    for name, called in zip(single, instruction.called, strict=False):
        yield f"{name}=%{names.of(called)}"


def _listed(parts: Iterable[HloComputation | HloInstruction], names: _Names) -> str:
    return "{" + ", ".join(f"%{names.of(part)}" for part in parts) + "}"
