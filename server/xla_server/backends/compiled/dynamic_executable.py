"""Programs of dynamic shape on a platform that compiles.

The sizes are known when a program runs. Its instructions, called steps, are walked on the host, as
by the interpreter. Consecutive steps whose sizes are known become one program of static shape,
which is compiled for these sizes and run. Mostly this is the whole program. If sizes depend on
computed values, there is one program before these values are known and one after.
"""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from xla_contract.errors import InternalError, XlaError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape
from xla_server.backends.compiled.size_variants import SizeVariant, SizeVariants
from xla_server.backends.device_buffer import Buffers
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.interpreter_times import InterpreterTimes
from xla_server.backends.diagnostics.profile import write_profile
from xla_server.backends.platform import Buffer, Device, Execution, Profile
from xla_server.backends.signature import InterpretedProgram, argument_values, owned
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.dynamic_shapes import ANY_SIZE, has_dynamic_shapes
from xla_server.evaluator.interpret import Run
from xla_server.evaluator.plan import Plan, PlanCache, PlannedInstruction
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.evaluation import Evaluator, Frame, Value
from xla_server.ops.evaluators import evaluator
from xla_server.ops.numerics.subnormals import subnormals_as_zeros
from xla_server.passes.dynamic_sizes.size_specialisation import HOST
from xla_server.passes.dynamic_sizes.sized_values import extents_of
from xla_server.runtime.host import HostRun, RunContext

_CHEAP = (
    ANY_SIZE
    - HOST
    - {
        Opcode.CALL,
        Opcode.CONDITIONAL,
        Opcode.DYNAMIC_RESHAPE,
        Opcode.FUSION,
        Opcode.GET_DIMENSION_SIZE,
        Opcode.WHILE,
    }
)
"""Operations that take no time on available values: they forward them, or change their sizes.

GetDimensionSize is not among them: in a static program it is a constant.
"""

LARGEST_CONSTANT = 1 << 16
"""Largest constant, in bytes, that is part of static programs; larger ones are arguments."""


class DynamicExecutable(InterpretedProgram):
    """A program of dynamic shape. Implements xla_server.backends.platform.Executable.

    The times of each execution's steps and thunks are written to `dump`, if there is one.
    """

    def __init__(
        self,
        module: HloModule,
        program_shape: ProgramShape,
        programs: SizeVariants,
        buffers: Buffers[Any],
        *,
        custom_calls: CustomCallRegistry,
        seed: int = 0,
        dump: Dump | None = None,
    ) -> None:
        # Sizes of temporaries are unknown here; each static program is checked against the memory
        # limit when it is compiled.
        super().__init__(module, program_shape, seed)
        self._programs = programs
        self._buffers = buffers
        self._dump = dump
        self._plans = PlanCache(custom_calls, is_dynamic=True, evaluator_of=_evaluator_of)
        for computation in module.computations:
            self._plans.of(computation)

    def execute(
        self, arguments: Sequence[Buffer], *, device: Device, options: ExecuteOptions
    ) -> Execution:
        """Run on `device` and wait for the result; raises as Executable.execute says."""
        started = time.perf_counter_ns()
        values = argument_values(arguments, self.program_shape.parameters, self._buffers.kind)
        times = None if self._dump is None else InterpreterTimes()
        run = SizedRun(
            options=options.inside(self._entry),
            plans=self._plans,
            programs=self._programs,
            device=device,
            random_states=self._random_states,
            seed=self._seed,
            times=times,
        )
        computing = time.perf_counter_ns()
        with np.errstate(all="ignore"), subnormals_as_zeros():
            value = run.call(self._entry, values)
        computed = time.perf_counter_ns()
        output = self._buffers.from_value(owned(value), self.program_shape.result, device)
        byte_size = sum(run.byte_sizes.values())
        profile = Profile.since(started, computing, computed, run.cycles, byte_size)
        if self._dump is not None and times is not None:
            write_profile(self._dump, times.measured())
        return Execution(output, profile)


@dataclasses.dataclass(eq=False, kw_only=True)
class SizedRun(Run):
    """One execution; the Frame of evaluators of control flow and of host operations.

    `cycles` is the sum over its programs, `byte_sizes` has the code size of each by name.
    """

    programs: SizeVariants
    device: Device
    times: InterpreterTimes | None = None
    cycles: int = dataclasses.field(default=0, init=False)
    byte_sizes: dict[str, int] = dataclasses.field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._host = HostRun(options=self.options, random_states=self.random_states, seed=self.seed)

    @property
    def random(self) -> np.random.Generator:
        """The source of random numbers, one for the host and for the programs."""
        return self._host.random

    def enter(self, computation: HloComputation, arguments: Sequence[Value]) -> Deep[Value]:
        """Return the value of a computation's root on these arguments, without Python recursion."""
        walk = _Walk(self.plans.of(computation), arguments, self)
        while walk.remaining:
            self.options.cancellation.checkpoint()
            self._run_cheap_steps(walk)
            if not walk.remaining:
                break
            sized = self._sized(walk.remaining, walk.values, walk.constants, walk.root)
            if sized.program is None:
                first = walk.remaining[0]
                value: Value = yield self._evaluate(first, walk.operands(first))
                walk.advance({first.result: value}, walk.remaining[1:])
            else:
                walk.advance(self._run(sized, walk.values), sized.segment.remaining)
        return walk.values[walk.root]

    def loop(self, instruction: HloInstruction, carried: Value) -> Deep[Value]:
        """Run a while loop by iterations, and as one program once sizes remain the same."""
        body, condition = instruction.called
        step = PlannedInstruction(instruction, _evaluate_while, (0,), 1, (), is_large=False)
        sizes: object = None
        while True:
            if (now := extents_of(carried)) != sizes:
                sizes = now
                rest = self._sized((step,), {0: carried}, {}, 1)
                if rest.program is not None:
                    return self._run(rest, {0: carried})[1]
            if not (yield self.enter(condition, (carried,))):
                return carried
            self.options.cancellation.checkpoint()
            carried = yield self.enter(body, (carried,))

    def _sized(
        self,
        steps: Sequence[PlannedInstruction],
        values: Mapping[int, Value],
        constants: Mapping[int, HloInstruction],
        wanted: int,
    ) -> SizeVariant:
        """Return the program of the first of these steps, compiled if these sizes are new."""
        with self._timed("choose a program", "", "walk"):
            return self.programs.of(steps, values, constants, {wanted})

    def _run(self, sized: SizeVariant, values: Mapping[int, Value]) -> dict[int, Value]:
        """Run a static program and return its values by slot."""
        program = sized.program
        assert program is not None
        timed = self.times.program(sized.name, program) if self.times else contextlib.nullcontext()
        with timed as times:
            context = RunContext(self.options, lambda _: self._host, times)
            given, cycles = sized.run(values, self.device, context)
        self.cycles += cycles
        if sized.name not in self.byte_sizes:
            self.byte_sizes[sized.name] = program.byte_size
        return given

    def _evaluate(self, step: PlannedInstruction, operands: Sequence[Value]) -> Deep[Value]:
        i = step.instruction
        with self._timed(f"step {i.opcode}", f"{i.opcode} %{i.name}", "step"):
            value: Value = yield super()._evaluate(step, operands)
            return value

    def _timed(
        self, what: str, instruction: str, category: str
    ) -> contextlib.AbstractContextManager[None]:
        if self.times is None:
            return contextlib.nullcontext()
        return self.times.step(what, instruction, category)

    def _run_cheap_steps(self, walk: "_Walk") -> None:
        """Evaluate the steps whose operands are available and that take no time."""
        for step in walk.remaining:
            if step.instruction.opcode in _CHEAP and walk.values.keys() >= set(step.operands):
                with contextlib.suppress(XlaError):  # The walk raises it at the step.
                    walk.values[step.result] = result_of(self._evaluate(step, walk.operands(step)))
        walk.advance({}, [step for step in walk.remaining if step.result not in walk.values])


class _Walk:
    """Progress of a computation: the available values, and the remaining steps."""

    def __init__(self, plan: Plan, arguments: Sequence[Value], frame: Frame) -> None:
        self.values: dict[int, Value] = dict(zip(plan.parameters, arguments, strict=True))
        self.constants: dict[int, HloInstruction] = {}
        self.root = plan.root
        remaining = []
        for step in plan.steps:
            i = step.instruction
            if i.opcode is Opcode.CONSTANT:
                self.values[step.result] = cast(Value, step.evaluate(i, (), frame))
                if i.shape.byte_size <= LARGEST_CONSTANT:
                    self.constants[step.result] = i
            else:
                remaining.append(step)
        self.remaining: Sequence[PlannedInstruction] = tuple(remaining)

    def operands(self, step: PlannedInstruction) -> list[Value]:
        """Return the values that a step reads."""
        return [self.values[slot] for slot in step.operands]

    def advance(self, values: dict[int, Value], remaining: Sequence[PlannedInstruction]) -> None:
        """Add values and replace the remaining steps; values that these do not read are dropped."""
        self.values.update(values)
        if len(remaining) < len(self.remaining):
            read = {slot for step in remaining for slot in step.operands}
            self.values = {
                slot: value
                for slot, value in self.values.items()
                if slot in read or slot == self.root
            }
        self.remaining = tuple(remaining)


def _evaluator_of(opcode: Opcode) -> Evaluator:
    """Return the evaluator of an opcode in the walk.

    Evaluators of other operations raise an error, as static programs compute them.
    """
    if opcode is Opcode.WHILE:
        return _evaluate_while
    found = evaluator(opcode)
    if opcode in ANY_SIZE or opcode in HOST or opcode is Opcode.CONSTANT:
        return found

    def evaluate(
        instruction: HloInstruction, operands: Sequence[Value], frame: Frame
    ) -> Value | Deep[Value]:
        if any(map(has_dynamic_shapes, instruction.called)):
            # The called computation has dynamic shapes, so it is walked, too.
            return found(instruction, operands, frame)
        raise InternalError(f"a program must give the value, got none for {instruction.shape}")

    return evaluate


def _evaluate_while(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    return cast(SizedRun, frame).loop(instruction, operands[0])
