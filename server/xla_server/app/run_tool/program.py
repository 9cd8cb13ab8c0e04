"""The work of xla-run: read, run, compare, write."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xla_contract.stubs import xla_pb2
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.app.calling.credentials import checked_target, credentials_for
from xla_server.app.calling.remote import Remote
from xla_server.app.compile_tool.modules import load_module
from xla_server.app.options.settings import load_settings
from xla_server.app.platforms import create_backend
from xla_server.app.run_tool.array_files import (
    leaves_of,
    read_arguments,
    require_outputs,
    write_results,
)
from xla_server.app.run_tool.comparison import compared
from xla_server.app.run_tool.runners import Outcome, run_on_backend, run_on_jax, run_on_server
from xla_server.backends.platform import Backend
from xla_server.ir.exporter import export_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.partitioning.signature import is_partitioned, sharded_signature
from xla_server.rpc.decode.programs import read_compile_request

_PRINTED_ELEMENTS = 100
"""Largest number of elements of a result that is printed whole; of a larger one the corners are."""


@dataclasses.dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of a run."""

    target: str | None
    credentials: Mapping[str, Any]
    """Flags of the command, for a target."""
    platform: str
    compare: str | None
    is_timed: bool
    outputs: Sequence[Path]


def read_program(
    path: Path,
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    seed: int | None,
    replicas: int | None = None,
    partitions: int | None = None,
) -> tuple[HloModule, list[Literal]]:
    """Return a program and its arguments, which are whole values if it splits them.

    Without counts of replicas or partitions it has those that it states itself.

    Raises as `load_module`, `read_compile_request`, `require_outputs` and `read_arguments` do.
    """
    module = load_module(path)
    stated = read_compile_request(
        export_module(module), xla_pb2.ExecutionOptions(), header=module.grid
    ).grid
    module.grid = DeviceGrid(replicas or stated.replicas, partitions or stated.partitions)
    verify(module)
    signature = module.entry_program_shape
    if module.grid.partitions > 1 and is_partitioned(module):
        signature = sharded_signature(module).shape
    require_outputs(outputs, signature.result)
    return module, read_arguments(inputs, signature, seed)


def run_program(
    module: HloModule, arguments: Sequence[Literal], options: ToolOptions
) -> Iterator[tuple[str, bool]]:
    """Run a program; yield lines to print, each with False if it reports a result that differs.

    Raises XlaError if the program or the server fails, ConfigurationError for options, OSError for
    outputs.
    """
    outcome = _run(module, arguments, options)
    if options.is_timed:
        yield (
            f"compile: {outcome.compile_ms:.3f} ms, first run: {outcome.first_ms:.3f} ms, second "
            f"run, computing alone: {outcome.compute_ms:.3f} ms",
            True,
        )
    leaves = [leaf for leaf in leaves_of(outcome.result) if leaf.shape.is_array]
    if options.outputs:
        write_results(options.outputs, outcome.result)
    elif options.compare is None:
        with np.printoptions(threshold=_PRINTED_ELEMENTS):
            for leaf in leaves:
                yield f"{leaf.shape.without_layout()}", True
                yield str(leaf.actual), True
    if options.compare is not None:
        ours = [np.asarray(leaf.actual) for leaf in leaves]
        yield from compared(ours, _reference(module, arguments, options.compare), options.compare)


def _run(module: HloModule, arguments: Sequence[Literal], options: ToolOptions) -> Outcome:
    repeats = 2 if options.is_timed else 1
    if options.target is None:
        backend = _backend(options.platform, module.grid)
        return run_on_backend(backend, module, arguments, repeats)
    target = checked_target(options.target)
    with Remote(target, credentials_for(target, options.credentials), None) as remote:
        return run_on_server(remote, module, arguments, repeats)


def _backend(platform: str, grid: DeviceGrid) -> Backend:
    return create_backend(load_settings({"platform": platform, "devices": grid.size}))


def _reference(module: HloModule, arguments: Sequence[Literal], name: str) -> list[Any]:
    if name == "jax":
        return run_on_jax(module, arguments)
    result = run_on_backend(_backend(name, module.grid), module, arguments, 1).result
    return [np.asarray(leaf.actual) for leaf in leaves_of(result) if leaf.shape.is_array]
