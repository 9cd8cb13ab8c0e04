"""The printed blocks of the page: its program at each step of compilation, for AVX2 on any host."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.kernels_page.scalar_graph import graph_text
from tests.unit.codegen.assembled import assembly_of, loop_of
from xla_server.backends.compiled.compilation import Compilation, compile_module
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel import module_of
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.loop_nests.loop_kernel import LoopTask, maker_of
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules.table import ElementGraph, scheduled_by
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module
from xla_server.target.machine import Machine
from xla_server.target.target import Target

PROGRAM = Path(__file__).parent / "softmax.hlo"
MACHINE = Machine.avx2(cores=2)


class _Stages:
    """Keeps the module before fusion. Implements compilation.Observer."""

    def __init__(self) -> None:
        self.before_fusion = ""

    def begin(self, module: HloModule) -> None:
        """Ignore this stage."""

    def before_pass(self, name: str, module: HloModule) -> None:
        """Keep the module that fusion gets."""
        if name == "loop-fusion":
            self.before_fusion = print_module(module)

    def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
        """Ignore this stage."""

    def optimised(self, module: HloModule) -> None:
        """Ignore this stage."""

    def lowered(self, code: Any, assignment: Any) -> None:
        """Ignore this stage."""


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """The program of the page, compiled."""

    before_fusion: str
    compilation: Compilation
    thunk: KernelThunk
    kernel: Kernel


@functools.cache
def _steps() -> Steps:
    stages = _Stages()
    module = parse_module(PROGRAM.read_text())
    compilation = compile_module(module, target=Target.of(MACHINE), observer=stages)
    (thunk,) = kernels_of(compilation.code)
    assert isinstance(thunk.kernel, Kernel)
    return Steps(stages.before_fusion, compilation, thunk, thunk.kernel)


def _computation(text: str, head: str) -> str:
    """Return the computation of a printed module whose head begins like this."""
    start = text.index(f"\n{head}") + 1
    return text[start : text.index("\n}", start)] + "\n}\n"


def _program() -> str:
    return PROGRAM.read_text().partition("\n\n")[2]


def _passes() -> str:
    return _computation(_steps().before_fusion, "ENTRY")


def _fusion() -> str:
    text = print_module(_steps().compilation.module)
    return f"{_computation(text, '%fused')}\n{_computation(text, 'ENTRY')}"


def _graph() -> ElementGraph:
    fusion = _steps().compilation.module.entry.root
    stored = {operand: Value(operand.shape, operand.name) for operand in fusion.operands}
    result = Value(fusion.shape, fusion.name)
    task = LoopTask(fusion, fusion, stored, (result,), fusion.name, (0,), Target.of(MACHINE))
    make = maker_of(task, [*stored.values(), result], {})
    return ElementGraph(fusion.shape.dimensions, make, Target.of(MACHINE), cancellation=2)


def _scalar_graph() -> str:
    nest = _graph().nest
    return graph_text(nest.loops, nest.stores)


def _schedule() -> str:
    schedule, _ = scheduled_by(_graph())
    return f"{schedule.name}: {schedule.fits}\n    {schedule.reason}\n"


def _work() -> str:
    thunk = _steps().thunk
    return (
        f"{thunk.work_items} work items of about {thunk.work} operations, "
        f"{thunk.prologue} before the first of each call\n"
    )


@functools.cache
def _module() -> str:
    return str(module_of(_steps().kernel, "kernel", MACHINE))


def _llvm() -> str:
    """Return the blocks of the loop that divides."""
    division = _module().index("fdiv")
    start = _module().rindex("\ntest", 0, division) + 1
    return _module()[start : _module().index("\nafter", division) + 1]


def _assembly() -> str:
    return "\n".join(loop_of(assembly_of(_module(), MACHINE), "vdivps")) + "\n"


BLOCKS: Mapping[str, Callable[[], str]] = {
    "program": _program,
    "passes": _passes,
    "fusion": _fusion,
    "graph": _scalar_graph,
    "schedule": _schedule,
    "source": lambda: _steps().kernel.text,
    "work": _work,
    "llvm": _llvm,
    "assembly": _assembly,
}
"""The text of each printed block of the page, by its name there."""

MACHINE_CODE = "assembly"
"""The block that LLVM makes for x86, where it runs on x86."""

_BLOCK = re.compile(r"(<!-- printed: (\w+) -->\n```\w*\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


def names_of(page: str) -> list[str]:
    """Return the names of the printed blocks of a page."""
    return [match[2] for match in _BLOCK.finditer(page)]


def refreshed(page: str, kept: str = "") -> str:
    """Return a page with its blocks printed anew, but for the block `kept`.

    Raises KeyError for a block of no known name.
    """

    def printed(match: re.Match[str]) -> str:
        text = match[3] if match[2] == kept else BLOCKS[match[2]]()
        return f"{match[1]}{text}{match[4]}"

    return _BLOCK.sub(printed, page)
