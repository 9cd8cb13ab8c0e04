"""The interpreter: it evaluates instruction after instruction with numpy."""

import dataclasses
from collections.abc import Generator, Sequence

import numpy as np

from xla_contract import errors
from xla_server.evaluator import vectorized_scalars
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.plan import PlanCache, PlannedInstruction
from xla_server.execution.environment import Environment
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.memory_check import require_memory
from xla_server.ir.checkpoints import cancellable
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloModule
from xla_server.ops.evaluation import Array, Value
from xla_server.ops.numerics.subnormals import subnormals_as_zeros
from xla_server.ops.random.rng_get_and_update_state import RandomStates


def evaluate(
    program: HloModule | HloComputation,
    arguments: Sequence[Value],
    *,
    options: ExecuteOptions | None = None,
    plans: PlanCache | None = None,
    random_states: RandomStates | None = None,
    seed: int = 0,
) -> Value:
    """The value of a verified program's root for these arguments.

    `plans` keeps what is prepared from one evaluation to the next, and `random_states` where
    rng-get-and-update-state has got to. `seed` starts the random numbers of rng; with 0 they start
    from somewhere else each time. Raises InvalidArgumentError for another number of arguments than
    parameters, what the cancellation was given once it is set, and what the evaluators raise, each
    placed at its instruction.
    """
    computation = program.entry if isinstance(program, HloModule) else program
    if len(arguments) != len(computation.parameters):
        raise errors.InvalidArgumentError(
            f"the program takes {len(computation.parameters)} arguments, got {len(arguments)}"
        )
    run = Run(
        options=(ExecuteOptions() if options is None else options).inside(computation),
        plans=PlanCache(is_dynamic=has_dynamic_shapes(program)) if plans is None else plans,
        random_states=RandomStates() if random_states is None else random_states,
        seed=seed,
    )
    # Division by zero, overflow and invalid operations have defined results in XLA.
    check = run.options.cancellation.checkpoint
    with np.errstate(all="ignore"), subnormals_as_zeros(), cancellable(check):
        return run.call(computation, arguments)


@dataclasses.dataclass(eq=False, slots=True, kw_only=True)
class Run(Environment):
    """One execution on one device; the Frame that evaluators see."""

    plans: PlanCache

    def call(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """Evaluate a computation on arguments, and give its root's value."""
        return result_of(self.enter(computation, arguments))

    def enter(self, computation: HloComputation, arguments: Sequence[Value]) -> Deep[Value]:
        """Evaluate as `call` does, as a generator for `ir.explicit_stack`."""
        plan = self.plans.of(computation)
        values: list[Value | None] = [None] * plan.slot_count
        for slot, argument in zip(plan.parameters, arguments, strict=True):
            values[slot] = argument
        cancellation = self.options.cancellation
        for step in plan.steps:
            if cancellation.needs_checkpoint:
                cancellation.checkpoint()
            operands = [values[slot] for slot in step.operands]
            value: Value = yield self._evaluate(step, operands)  # type: ignore[arg-type]
            values[step.result] = value
            for slot in step.frees:
                values[slot] = None
        root = values[plan.root]
        if root is None:
            raise errors.InternalError(f"every root has a value, got none for %{computation.name}")
        return root

    def call_lifted(self, computation: HloComputation, arguments: Sequence[Array]) -> Value:
        """Evaluate a computation on scalars once, on whole arrays of scalars."""
        return vectorized_scalars.call(self, computation, arguments)

    def _evaluate(self, step: PlannedInstruction, operands: Sequence[Value]) -> Deep[Value]:
        instruction = step.instruction
        try:
            if step.is_large:
                require_memory(instruction.shape)
            made = step.evaluate(instruction, operands, self)
            value: Value = (yield made) if isinstance(made, Generator) else made
        except errors.XlaError as error:
            if self.options.cancellation.is_cancelled:
                # A cancellation is no fault of the instruction that it stopped at.
                raise
            raise error.at(instruction.opcode, instruction.name) from error.__cause__
        except MemoryError as error:
            raise errors.ResourceExhaustedError(
                f"memory must suffice for every value, got none left for {instruction.shape}"
            ).at(instruction.opcode, instruction.name) from error
        except Exception as error:
            inside = ", ".join(str(operand.shape) for operand in instruction.operands)
            raise errors.InternalError(
                f"the evaluator failed, got operands ({inside}) and shape {instruction.shape}"
            ).at(instruction.opcode, instruction.name) from error
        return value
