"""Functions compiled for a processor that need not be the host."""

import re
from typing import Any

import llvmlite.binding as llvm

from xla_server.codegen.compiler.kernel_compiler import run_passes, target_machine
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.target.machine import Machine


def _compiled(text: str, target: Machine, effort: Effort) -> tuple[Any, Any]:
    """LLVM's machine and the optimised module of a text."""
    machine = target_machine(target, effort)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = llvm.get_process_triple(), str(machine.target_data)
    module.verify()
    if effort is Effort.OPTIMISED:
        run_passes(module, target, effort, machine)
    return machine, module


def assembly_of(text: str, target: Machine, effort: Effort = Effort.OPTIMISED) -> str:
    """The assembly of a module; lines of inline assembly are in it as they were written."""
    machine, module = _compiled(text, target, effort)
    return str(machine.emit_assembly(module))


def optimised(text: str, target: Machine) -> str:
    """The module of a text behind LLVM's passes."""
    return str(_compiled(text, target, Effort.OPTIMISED)[1])


def object_of(text: str, target: Machine, effort: Effort = Effort.OPTIMISED) -> bytes:
    """The object code of a module, for which lines of inline assembly are assembled, too."""
    machine, module = _compiled(text, target, effort)
    return bytes(machine.emit_object(module))


def code_of(object_code: bytes) -> bytes:
    """The instructions in an object."""
    sections = llvm.ObjectFileRef.from_data(object_code).sections()
    return b"".join(section.data() for section in sections if section.is_text())


def loop_of(assembly: str, instruction: str) -> list[str]:
    """The lines of the innermost loop that has most of an instruction, a regular expression."""
    lines = [line.strip() for line in assembly.splitlines()]
    starts: dict[str, int] = {}
    found: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        if match := re.match(r"(\.L\w+):", line):
            starts[match[1]] = number
        elif (match := re.match(r"j\w+\s+(\.L\w+)", line)) and match[1] in starts:
            body = lines[starts[match[1]] + 1 : number + 1]
            if sum(":" in part.split("#")[0] for part in body) == 0:
                found.append(body)
    return max(found, key=lambda body: sum(bool(re.match(instruction, part)) for part in body))
