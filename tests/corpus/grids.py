"""Programs on a grid of participants, on the interpreter or on cpu."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.checked_evaluation import CheckedPlans
from tests.corpus.hlo_text import parse_hlo
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.platform import Backend, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import Collectives, GridParticipants
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.feed_protocol import Feeds, NoFeeds
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.sessions.runs.grids import grid_execution
from xla_server.sessions.runs.grids.grid_execution import run_on_grid

BACKENDS: dict[str, Backend] = {
    "interpreter": Interpreter(plans=CheckedPlans),
    "cpu": Cpu(),
}
FOREVER = 1000.0


def module_of(text: str, grid: DeviceGrid) -> HloModule:
    """The module of HLO text, for a grid."""
    module = import_module(parse_hlo(text))
    module.grid = grid
    return module


def run_per_device(
    platform: str, module: HloModule, arguments: Sequence[Sequence[Any]], **options: Any
) -> list[list[Any]]:
    """The results of each participant, tuples taken apart, for its own arguments."""
    backend = BACKENDS[platform]
    executable = backend.compile(module, module.entry_program_shape)
    device = backend.devices[0]
    feeds: Feeds = options.get("feeds") or NoFeeds()

    def job(values: Sequence[Any]) -> Any:
        placed = _placed(backend, values)

        def run(collectives: Collectives, cancellation: Cancellation) -> Execution:
            return executable.execute(
                placed,
                device=device,
                options=ExecuteOptions(
                    feeds=feeds, cancellation=cancellation, collectives=collectives
                ),
            )

        return run

    cancellation = options.get("cancellation") or Cancellation()
    timeout = options.get("timeout_seconds", FOREVER)
    executions = run_on_grid(
        [job(values) for values in arguments], module.grid, cancellation, timeout_seconds=timeout
    )
    return _values(executions)


def run_round_robin(
    module: HloModule, arguments: Sequence[Sequence[Any]], cancellation: Cancellation | None = None
) -> list[list[Any]] | None:
    """The results of participants run round-robin in one thread of cpu; None where they cannot."""
    backend = BACKENDS["cpu"]
    walk = backend.compile(module, module.entry_program_shape).round_robin
    if walk is None:
        return None
    placed = [_placed(backend, values) for values in arguments]
    devices = [backend.devices[0]] * module.grid.size

    def run(group: GridParticipants, own: Cancellation) -> list[Execution]:
        made = walk(placed, devices, own, group)
        assert made is not None
        return made

    for _ in range(2):
        # The second one has the memory of the first.
        executions = grid_execution.run_round_robin(
            run, module.grid, cancellation or Cancellation()
        )
    return _values(executions)


def _placed(backend: Backend, values: Sequence[Any]) -> list[Any]:
    device = backend.devices[0]
    return [backend.to_device(Literal.from_numpy(np.asarray(each)), device) for each in values]


def _values(executions: Sequence[Execution]) -> list[list[Any]]:
    outputs: list[Any] = [execution.output for execution in executions]
    return [list(out.value) if isinstance(out.value, tuple) else [out.value] for out in outputs]
