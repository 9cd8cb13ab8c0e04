"""A run of a program from a file, on arguments made up for it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xla_contract.errors import UnimplementedError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import DumpOptions
from xla_server.backends.compiled.executable import CompiledExecutable
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.dump_files import DumpFiles
from xla_server.backends.platform import Backend, Execution
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule

SEED = 0
"""Seed of the arguments: fixed, so that two trial runs of a program are comparable."""


def trial_run(platform: Backend, module: HloModule, profile: DumpFiles | None) -> Iterator[str]:
    """Run a program of static shape twice, the second time measured; yield lines of a report.

    Its arguments are random but always the same: floats from the standard normal distribution,
    integers from 0 to 9, truth values. The times of the program's parts are written to `profile`,
    as a table and as a trace. The feeds are empty. Raises what compiling and running the program
    raises, and UnimplementedError for a platform that does not compile.
    """
    device = platform.devices[0]
    executable = platform.compile(module, module.entry_program_shape)
    if not isinstance(executable, CompiledExecutable):
        raise UnimplementedError(
            f"a program must run on a platform that compiles it, got {platform.platform}"
        )
    random = np.random.default_rng(SEED)
    arguments = [
        platform.to_device(drawn(shape, random), device)
        for shape in executable.program_shape.parameters
    ]

    def run() -> Execution:
        return executable.execute(
            arguments,
            device=device,
            options=ExecuteOptions(),
        )

    run()
    if profile is not None:
        executable.dump = Dump(profile, DumpOptions())
    measured = run().profile
    yield f"arguments: random (seed {SEED})"
    yield f"time: {measured.compute_time_ns} ns, {measured.compute_cycle_count} cycles"
    yield f"code and constants: {measured.executable_size_in_bytes} bytes"


def drawn(shape: Shape, random: np.random.Generator) -> Literal:
    """Return a random value: floats of the normal distribution, integers from 0 to 9, truth."""
    if shape.is_tuple:
        return Literal.tuple_of([drawn(part, random) for part in shape.tuple_shapes])
    if not shape.is_array:
        return Literal.token()
    kind, sizes = shape.element_type, shape.dimensions
    if kind.is_integer:
        numbers: Any = random.integers(0, max(1, min(10, 1 << (kind.bit_width - 1))), sizes)
    elif kind is ElementType.PRED:
        numbers = random.integers(0, 2, sizes)
    else:
        numbers = random.standard_normal(sizes)
        if kind.is_complex:
            numbers = numbers + 1j * random.standard_normal(sizes)
    return Literal.from_numpy(np.asarray(numbers).astype(kind.dtype), shape)
