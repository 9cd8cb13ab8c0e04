"""Programs on a grid of participants, on the interpreter or on cpu."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.corpus.hlo_text import parse_hlo
from xla_contract.types.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.platform import Backend, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import NoChannels
from xla_server.execution.collectives_protocol import Collectives
from xla_server.execution.feed_protocol import Feeds, NoFeeds
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.sessions.runs.grids.grid_execution import run_on_grid

BACKENDS: dict[str, Backend] = {
    "interpreter": Interpreter(check_values=True),
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
        placed = [backend.to_device(Literal.from_numpy(np.asarray(v)), device) for v in values]

        def run(collectives: Collectives, cancellation: Cancellation) -> Execution:
            return executable.execute(
                placed,
                device=device,
                feeds=feeds,
                channels=NoChannels(),
                cancellation=cancellation,
                collectives=collectives,
            )

        return run

    cancellation = options.get("cancellation") or Cancellation()
    timeout = options.get("timeout_seconds", FOREVER)
    executions = run_on_grid(
        [job(values) for values in arguments], module.grid, cancellation, timeout_seconds=timeout
    )
    outputs: list[Any] = [execution.output for execution in executions]
    return [list(out.value) if isinstance(out.value, tuple) else [out.value] for out in outputs]
