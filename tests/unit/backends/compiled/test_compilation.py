"""The compile sequence: what it shows, and that results do not depend on what is left out."""

import contextlib
from typing import Any

import numpy as np
import pytest

from tests.corpus import hlo_programs
from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from tests.operations_page.probes import PROBES, Probe
from tests.operations_page.probing import Subject
from tests.processors import TARGET
from tests.unit.passes.passing import leaves, tame
from xla_contract.errors import CancelledError, XlaError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.compiled.compilation import compile_module, steps_of
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.assignment import Assignment
from xla_server.buffers.code import Code, KernelThunk
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.lower.lowerings import NOT_LOWERED
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.checkpoints import cancellable, checkpoint
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module
from xla_server.passes.framework.selection import PassOptions

STEPS, _ = steps_of(TARGET)

CPU = Cpu(threads=1)


class Notes:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.texts: list[str] = []
        self.code: Code | None = None
        self.assignment: Assignment | None = None

    def begin(self, module: HloModule) -> None:
        self.stages.append("begin")
        self.texts.append(print_module(module))

    def before_pass(self, name: str, module: HloModule) -> None:
        assert print_module(module) == self.texts[-1], name

    def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
        if changed:
            self.stages.append(name)
            self.texts.append(print_module(module))
        assert print_module(module) == self.texts[-1], name

    def optimised(self, module: HloModule) -> None:
        self.stages.append("optimised")

    def lowered(self, code: Code, assignment: Assignment) -> None:
        self.stages.append("lowered")
        self.code, self.assignment = code, assignment


def test_an_observer_is_shown_each_stage_in_order() -> None:
    notes = Notes()
    module = parse_module(VECTOR_LOOP)
    compilation = compile_module(module, observer=notes)
    assert notes.stages == ["begin", *compilation.changed, "optimised", "lowered"]
    assert {step.name for step in STEPS} >= {"loop-fusion", "dce"}
    assert "loop-fusion" in compilation.changed
    assert notes.texts[0] == print_module(module), "the module itself stays"
    assert notes.texts[-1] == print_module(compilation.module)
    assert notes.code is compilation.code
    assert notes.assignment is compilation.assignment


def test_computations_that_nothing_calls_are_seen_by_no_pass() -> None:
    dead = "dead { a = f32[4] parameter(0) ROOT b = f32[4] sine(a) }\n"
    text = "HloModule m\n{}ENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] cosine(x) }}"
    notes = Notes()
    compile_module(parse_module(text.format(dead)), observer=notes)
    assert notes.texts[0] == print_module(parse_module(text.format("")))


def test_every_kernel_says_which_instruction_it_is_for() -> None:
    compilation = compile_module(parse_module(VECTOR_LOOP))
    kernels = [thunk for thunk in compilation.code.thunks if isinstance(thunk, KernelThunk)]
    assert kernels
    instructions = set(compilation.module.instructions())
    for row in kernels:
        origin = compilation.code.origins[row]
        assert origin in instructions
        assert row.name.startswith(origin.name)


def test_nothing_optional_is_done_at_level_0() -> None:
    compilation = compile_module(parse_module(VECTOR_LOOP), PassOptions(level=0))
    assert compilation.changed == ()


def test_every_operation_compiles_with_what_is_needed_alone() -> None:
    for opcode, probe in PROBES.items():
        module = import_module(smallest(probe))
        if opcode not in NOT_LOWERED and not has_dynamic_shapes(module):
            assert compile_module(module, PassOptions(level=0)).code.results is not None, opcode


def smallest(probe: Probe) -> hlo_pb2.HloModuleProto:
    """The probe's program about the first kind that its operation takes."""
    for kind in (ElementType.F32, ElementType.S32, ElementType.C64, *ElementType):
        subject = Subject(kind)
        with contextlib.suppress(XlaError):
            return subject.build(probe.program(subject)).proto
    raise AssertionError(probe)


def results(module: HloModule, arguments: list[Any], options: PassOptions) -> list[Any]:
    executable = CPU.compile(
        module, module.entry_program_shape, options=CompileOptions(options, seed=1)
    )
    device = CPU.devices[0]
    output: Any = executable.execute(
        [CPU.to_device(Literal.from_numpy(argument), device) for argument in arguments],
        device=device,
        options=ExecuteOptions(),
    ).output
    return leaves(output.value)


@pytest.mark.parametrize("name", ["vector loop", *list(hlo_programs.PROGRAMS)[::8]])
@pytest.mark.parametrize("level", [0, 1])
def test_results_are_the_same_whatever_is_left_out(name: str, level: int) -> None:
    if name == "vector loop":
        module = parse_module(VECTOR_LOOP)
    else:
        parameters, root, *before = hlo_programs.PROGRAMS[name]
        module = import_module(parse_hlo(hlo_programs.program(parameters, root, *before)))
    random = np.random.default_rng(3)
    arguments = [tame(parameter.shape, random) for parameter in module.entry.parameters]
    expected = leaves(evaluate(module, arguments, seed=1))
    found = results(module, arguments, PassOptions(level=level))
    for ours, theirs in zip(found, expected, strict=True):
        tolerance = {1: 0.3, 2: 2e-2}.get(theirs.dtype.itemsize, 2e-4)
        if theirs.dtype.kind in "biu":
            tolerance = 0
        wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=tolerance
        )


def test_a_compilation_ends_at_each_step_that_asks_and_leaves_nothing_behind() -> None:
    cpu, module = Cpu(threads=1), parse_module(VECTOR_LOOP)
    requested: list[int] = []

    def compile_until(limit: int) -> None:
        requested.clear()

        def check() -> None:
            requested.append(1)
            if len(requested) > limit:
                raise CancelledError("enough")

        with cancellable(check):
            cpu.compile(module, module.entry_program_shape)

    before = FUSION_FAULTS.count
    # Each step of the pipeline, each instruction of the loop, and each of its kernels.
    limits = [*range(0, 60, 20), len(STEPS), len(STEPS) + 3]
    for limit in limits:
        with pytest.raises(CancelledError, match="enough"):
            compile_until(limit)
    compile_until(1 << 30)
    steps, kernels = len(STEPS), len(kernels_of(compile_module(module).code))
    instructions = sum(len(part.instructions) for part in module.computations)
    assert len(requested) > steps + kernels + instructions
    for limit in range(len(requested) - kernels - 2, len(requested)):
        with pytest.raises(CancelledError, match="enough"):
            compile_until(limit)
    checkpoint()
    assert FUSION_FAULTS.count == before
