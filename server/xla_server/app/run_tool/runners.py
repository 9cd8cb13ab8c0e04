"""Runners of xla-run's programs: in this process, on a server, or on jaxlib's CPU."""

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.errors import UnimplementedError
from xla_contract.stubs import xla_pb2
from xla_contract.types.devices.sharding import REPLICATED
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.app.calling.remote import Remote
from xla_server.backends.platform import Backend, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import Collectives
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.exporter import export_module
from xla_server.ir.module import HloModule
from xla_server.passes.partitioning.partition import partition
from xla_server.sessions.runs.grids.grid_execution import run_on_grid
from xla_server.sessions.runs.grids.shards import cut, joined, joined_shape

_MS_PER_NS = 1e-6
_COLLECTIVE_TIMEOUT_SECONDS = 60.0
"""Time to wait for a participant, in seconds: the server's default, as all are in this process."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a program, and the times of its executions in milliseconds."""

    result: Literal
    compile_ms: float
    first_ms: float
    """Time of the first execution, the network included."""
    compute_ms: float
    """Time of the last execution alone, as the platform measured it."""


def run_on_backend(
    backend: Backend, module: HloModule, arguments: Sequence[Literal], repeats: int
) -> Outcome:
    """Compile and run a program in this process, `repeats` times at least once.

    It runs on all devices of its grid. Arguments and results that it splits are whole; otherwise
    all participants have the same arguments, and the result is that of the first.
    """
    started = time.perf_counter()
    partitioned = partition(module)
    grid, signature = module.grid, partitioned.signature
    executable = backend.compile(partitioned.module, partitioned.module.entry_program_shape)
    compiled = time.perf_counter()
    shardings = [sharding.copied(grid.replicas) for sharding in signature.parameters]
    if grid.size == 1:
        shardings = [REPLICATED] * len(arguments)
    buffers = [
        [
            backend.to_device(cut(literal, sharding, number), device)
            for literal, sharding in zip(arguments, shardings, strict=True)
        ]
        for number, device in enumerate(backend.devices)
    ]
    placed = time.perf_counter()

    def job(number: int, collectives: Collectives, cancellation: Cancellation) -> Execution:
        return executable.execute(
            buffers[number],
            device=backend.devices[number],
            options=ExecuteOptions(cancellation=cancellation, collectives=collectives),
        )

    jobs = [functools.partial(job, number) for number in range(grid.size)]
    executions: list[Execution] = []
    first = 0.0
    for _ in range(repeats):
        executions = run_on_grid(
            jobs, grid, Cancellation(), timeout_seconds=_COLLECTIVE_TIMEOUT_SECONDS
        )
        first = first or time.perf_counter() - placed
    results = [execution.output.to_literal() for execution in executions]
    result = results[0]
    if grid.size > 1 and signature.result.is_split:
        sharding = signature.result.copied(grid.replicas)
        result = joined(sharding, joined_shape(sharding, result.shape, grid.size), results)
    return Outcome(
        result,
        (compiled - started) * 1e3,
        first * 1e3,
        max(execution.profile.compute_time_ns for execution in executions) * _MS_PER_NS,
    )


def run_on_server(
    remote: Remote, module: HloModule, arguments: Sequence[Literal], repeats: int
) -> Outcome:
    """Compile and run a program on a server, in a session that ends with it."""
    with remote.session():
        parameters = module.entry_program_shape.parameters
        request = xla_pb2.CompileRequest(
            computation=export_module(module),
            input_shape_with_layout=[shape_to_proto(shape) for shape in parameters],
            execution_options=xla_pb2.ExecutionOptions(
                num_replicas=module.grid.replicas, num_partitions=module.grid.partitions
            ),
        )
        started = time.perf_counter()
        handle = remote.call("Compile", request).handle
        compiled = time.perf_counter()
        data = [
            remote.call(
                "TransferToServer",
                xla_pb2.TransferToServerRequest(literal=literal_to_proto(literal)),
            ).data
            for literal in arguments
        ]
        placed = time.perf_counter()
        execute = xla_pb2.ExecuteRequest(handle=handle, arguments=data)
        first, answer = 0.0, None
        for _ in range(repeats):
            answer = remote.call("Execute", execute)
            first = first or time.perf_counter() - placed
        assert answer is not None, "a program runs at least once"
        transfer = xla_pb2.TransferToClientRequest(data=answer.output)
        result = literal_from_proto(remote.call("TransferToClient", transfer).literal)
    return Outcome(
        result,
        (compiled - started) * 1e3,
        first * 1e3,
        answer.profile.compute_time_ns * _MS_PER_NS,
    )


def run_on_jax(module: HloModule, arguments: Sequence[Literal]) -> list[Any]:
    """Return the arrays of a program's result, flat, by XLA's own compiler for CPUs.

    Raises UnimplementedError without jax, for arguments that are tuples, and where jax fails.
    """
    try:
        import jax
        from jax._src import lib
        from jax._src.compiler import get_compile_options

        # jax's public names compile Python functions alone, and no modules.
        internals: Any = lib
        to_stablehlo = internals._jax.mlir.hlo_to_stablehlo
        device_list = internals.xla_client.DeviceList
    except (ImportError, AttributeError):
        raise UnimplementedError(
            "--compare jax needs jax 0.6 or later, got none: pip install jax, or compare with the "
            "interpreter"
        ) from None
    if any(not literal.shape.is_array for literal in arguments):
        raise UnimplementedError("--compare jax takes arrays, got a parameter that is none")
    if module.grid.size > 1:
        raise UnimplementedError(f"--compare jax runs on one device, got {module.grid}")
    devices = tuple(jax.devices("cpu")[:1])
    # These are the options of jax.jit; without them max(1, NaN) is 1.
    options = get_compile_options(num_replicas=1, num_partitions=1)
    client: Any = devices[0].client
    try:
        converted = to_stablehlo(export_module(module).SerializeToString())
        executable = client.compile_and_load(converted, device_list(devices), options)
        with jax.enable_x64(True):
            placed = [jax.device_put(np.asarray(each.value), devices[0]) for each in arguments]
            return [np.asarray(result) for result in executable.execute(placed)]
    except Exception as error:
        # Errors of jax are of many kinds.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnimplementedError(f"--compare jax must be able to run it, got {reason}") from error
