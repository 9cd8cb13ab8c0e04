"""The steps of every compilation, from a verified module to code with buffer assignment."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Protocol

from xla_contract.types.opcode import Opcode
from xla_server.buffers.assignment import Assignment, assign
from xla_server.buffers.code import Code
from xla_server.buffers.double_buffers import with_double_buffers
from xla_server.buffers.work import ProgramWork, work_of, work_once
from xla_server.codegen.gpu.lower.concatenate import grid_costs
from xla_server.codegen.gpu.lower.joined_launches import with_joined_launches
from xla_server.codegen.lower.lowering import Lower, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.codegen.lower.recomputation import LoopNestCosts
from xla_server.codegen.lower.shared_kernels import with_shared_kernels
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.fusion.pipeline import fusions
from xla_server.ir.module import HloModule
from xla_server.passes.framework.editor import copy_module, drop_uncalled
from xla_server.passes.framework.fixpoint import Pass, PassObserver, run_once
from xla_server.passes.framework.selection import PassOptions, selected
from xla_server.passes.pipeline import NEEDED, pipeline
from xla_server.passes.simplify.call_inliner import require_inlinable
from xla_server.target.loop_tuning import DoubleBuffers
from xla_server.target.machine import Machine
from xla_server.target.target import Target


@functools.cache
def steps_of(target: Target) -> tuple[tuple[Pass, ...], frozenset[str]]:
    """Return the passes and fusion steps in order, and the names of the fusion steps."""
    fusing = fusions(target, costs_of(target))
    return (*pipeline(target), *fusing), frozenset(step.name for step in fusing)


def costs_of(target: Target) -> LoopNestCosts:
    """Return the cost model of fusion for a target."""
    return LoopNestCosts(target) if target.machine.gpu is None else grid_costs(target)


class Observer(PassObserver, Protocol):
    """An observer of a program's compilation. It must not change the modules that it receives."""

    def begin(self, module: HloModule) -> None:
        """Called with the module before all passes."""

    def optimised(self, module: HloModule) -> None:
        """Called with the module after all passes."""

    def lowered(self, code: Code, assignment: Assignment) -> None:
        """Called with the code, which has the kernels' sources, and the buffer of every value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled module, and the passes that changed it, one entry for each change.

    `work` has the operations of the module and those of its code.
    """

    module: HloModule
    code: Code
    assignment: Assignment
    changed: tuple[str, ...]
    work: ProgramWork


def compile_module(
    module: HloModule,
    options: PassOptions = PassOptions(),  # noqa: B008
    *,
    target: Target | None = None,
    lowerings: Mapping[Opcode, Lower] = LOWERINGS,
    custom_calls: CustomCallRegistry = BUILTIN,
    observer: Observer | None = None,
    fuses: bool = True,
) -> Compilation:
    """Compile a copy of `module` for `target`, by default the host, up to the text of kernels.

    Without `fuses`, instructions inside fusions have kernels of their own.

    Raises InvalidArgumentError for options with names that are no optional passes,
    UnimplementedError for an operation without a kernel, ResourceExhaustedError for a program that
    is too long once its calls are inlined.
    """
    require_inlinable(module)
    target = target or Target.of(Machine.host())
    every, fusing = steps_of(target)
    steps = selected(every, options, NEEDED, fusing)
    changing = copy_module(module)
    # Passes rewrite all computations, and require_inlinable counted those that are reached.
    drop_uncalled(changing)
    if observer is not None:
        observer.begin(changing)
    changed = run_once([step for step in steps if step.name not in fusing], changing, observer)
    once = work_once(changing)
    changed += run_once([step for step in steps if step.name in fusing], changing, observer)
    if observer is not None:
        observer.optimised(changing)
    code = lower(changing, lowerings, target, custom_calls, fuses=fuses)
    if target.machine.gpu is None:
        code = with_shared_kernels(code)
    elif fuses:
        code = with_joined_launches(code)
    work = ProgramWork(once, work_of(code))
    assignment = assign(code)
    if target.machine.gpu is None:
        code, assignment = with_double_buffers(code, assignment, DoubleBuffers())
    if observer is not None:
        observer.lowered(code, assignment)
    return Compilation(changing, code, assignment, tuple(changed), work)
