"""Programs through the cpu platform, beside the interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests import building
from tests.conformance.oracle import assert_equal_bits
from tests.corpus.kept import kernel_directory
from xla_client import Op
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import DEFAULTS, CompileOptions
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.assignment import Assignment
from xla_server.buffers.code import Code, CopyThunk
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

CPU = Cpu(compilation_cache_dir=kernel_directory())


def built(function: Callable[..., Op], arguments: Sequence[Any]) -> HloModule:
    """The module that `function` states over parameters shaped like the arguments."""
    return import_module(building.built(function, arguments, "compiled").proto)


def imported(serialized: bytes) -> HloModule:
    """The module of serialized bytes, as JAX gives them."""
    return import_module(hlo_pb2.HloModuleProto.FromString(serialized))


def on_cpu(
    module: HloModule,
    arguments: Sequence[Any],
    cpu: Cpu = CPU,
    options: CompileOptions = DEFAULTS,
) -> list[Any]:
    """The results of a module on the cpu platform, a tuple taken apart."""
    return on_platform(cpu, module, arguments, options)


def on_platform(
    platform: CompiledBackend,
    module: HloModule,
    arguments: Sequence[Any],
    options: CompileOptions = DEFAULTS,
) -> list[Any]:
    """The results of a module on a platform that compiles, a tuple taken apart."""
    executable = platform.compile(module, module.entry_program_shape, options=options)
    device = platform.devices[0]
    placed = [platform.to_device(Literal.from_numpy(np.asarray(a)), device) for a in arguments]
    output: Any = executable.execute(placed, device=device, options=ExecuteOptions()).output
    return list(output.value) if isinstance(output.value, tuple) else [output.value]


def copied_bytes(code: Code, assignment: Assignment) -> int:
    """The bytes that the copies of a program move: those whose values do not share memory."""
    locations = assignment.locations
    return sum(
        thunk.target.byte_size
        for thunk in code.thunks
        if isinstance(thunk, CopyThunk) and locations[thunk.target] != locations[thunk.source]
    )


def laid(shape: Shape, chance: np.random.Generator) -> Shape:
    """The shape with its dimensions in memory in some order."""
    if shape.is_tuple:
        return Shape.tuple_of([laid(part, chance) for part in shape.tuple_shapes])
    order = ",".join(map(str, chance.permutation(shape.rank)))
    return Shape.parse(f"{shape.without_layout()}{{{order}}}")


def interpreted(module: HloModule, arguments: Sequence[Any]) -> list[Any]:
    """The results of a module by the evaluators, a tuple taken apart."""
    value: Any = evaluate(module, [np.asarray(argument) for argument in arguments])
    return list(value) if isinstance(value, tuple) else [value]


def pairs(module: HloModule, arguments: Sequence[Any], cpu: Cpu = CPU) -> list[tuple[Any, Any]]:
    """(compiled, interpreted) for each result of a module."""
    return list(zip(on_cpu(module, arguments, cpu), interpreted(module, arguments), strict=True))


def both(function: Callable[..., Op], *arguments: Any, cpu: Cpu = CPU) -> list[tuple[Any, Any]]:
    """(compiled, interpreted) for each result of a program that `function` states."""
    return pairs(built(function, arguments), arguments, cpu)


def texts_of(module: HloModule) -> list[str]:
    """The texts of the kernels of a module."""
    return [kernel.source for kernel in kernels_of(compile_module(module).code)]


def assert_same(function: Callable[..., Op], *arguments: Any) -> None:
    """Compiled and interpreted results have the same bits."""
    for compiled, expected in both(function, *arguments):
        assert_equal_bits(compiled, expected)
