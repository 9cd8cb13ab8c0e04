"""The `interpreter` platform: executes every instruction by its evaluator, on virtual devices."""

import time
from collections.abc import Callable, Sequence

from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape
from xla_server.backends.compile_options import DEFAULTS, CompileOptions
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.platform import Buffer, Device, Execution, Profile, devices_of
from xla_server.backends.signature import InterpretedProgram, admitted, argument_values, owned
from xla_server.buffers.assignment import require_fit
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.peak_memory import temporary_bytes
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule
from xla_server.runtime.blocks import BlockPool


class Interpreter:
    """A platform of `device_count` virtual devices in this process.

    Implements xla_server.backends.platform.Backend. `max_value_bytes` bounds every single value of
    a program. Programs may call the targets in `custom_calls`. Requested dumps are written to
    `dumps`. `plans` is the class of plans.
    """

    platform = "interpreter"
    memory_bytes = None

    def __init__(
        self,
        device_count: int = 1,
        *,
        max_value_bytes: int | None = None,
        custom_calls: CustomCallRegistry = BUILTIN,
        plans: type[PlanCache] = PlanCache,
        dumps: DumpDirectory | None = None,
    ) -> None:
        self.devices = devices_of(self.platform, device_count)
        self._max_value_bytes = max_value_bytes
        self._custom_calls = custom_calls
        self._plans = plans
        self._dumps = dumps or DumpDirectory()
        self._blocks = BlockPool()

    def prepare(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Return True: the platform needs no preparation."""
        return True

    def compile(
        self, module: HloModule, entry: ProgramShape, *, options: CompileOptions = DEFAULTS
    ) -> "InterpreterExecutable":
        """Verify and plan a module; see Backend.compile.

        There are no passes, so only the seed and the dumps of `options` have an effect. Dumps have
        one stage.
        """
        program_shape = admitted(module, entry, self._custom_calls, self._max_value_bytes)
        files = self._dumps.open(options.dump, module.name)
        if files is not None:
            Dump(files, options.dump).begin(module)
        plans = self._plans(self._custom_calls, is_dynamic=has_dynamic_shapes(module))
        executable = InterpreterExecutable(module, program_shape, plans, seed=options.seed)
        require_fit(executable.memory, self._max_value_bytes)
        return executable

    def to_device(self, literal: Literal, device: Device) -> HostBuffer:
        """Copy a value to `device`."""
        return HostBuffer.placed(literal, device, self._blocks)


class InterpreterExecutable(InterpretedProgram):
    """A verified module with its evaluation plans.

    Implements xla_server.backends.platform.Executable.
    """

    def __init__(
        self, module: HloModule, program_shape: ProgramShape, plans: PlanCache, *, seed: int = 0
    ) -> None:
        super().__init__(module, program_shape, seed, temporary_bytes(module, plans))
        self._plans = plans
        self._module = module

    def execute(
        self, arguments: Sequence[Buffer], *, device: Device, options: ExecuteOptions
    ) -> Execution:
        """Run on `device` and wait for the result; raises as Executable.execute."""
        started = time.perf_counter_ns()
        values = argument_values(arguments, self.program_shape.parameters)
        computing = time.perf_counter_ns()
        value = evaluate(
            self._module,
            values,
            options=options,
            plans=self._plans,
            random_states=self._random_states,
            seed=self._seed,
        )
        computed = time.perf_counter_ns()
        output = HostBuffer.from_value(owned(value), self.program_shape.result, device)
        return Execution(output, Profile.since(started, computing, computed))
