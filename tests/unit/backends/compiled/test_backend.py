"""A platform of two methods: buffers and programs of its own, all else from CompiledBackend."""

import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from tests.processors import HOST, TARGET
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.compiled.compilation import Compilation
from xla_server.backends.compiled.precompilation import Preparation
from xla_server.backends.device_buffer import Buffers
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.platform import Device
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.text.parser import parse_module
from xla_server.runtime.blocks import BlockPool
from xla_server.runtime.program import Program
from xla_server.runtime.threads import KernelThreads

X = np.arange(4, dtype=np.float32)
SIZED = """HloModule sized
ENTRY e {
  x = f32[<=4] parameter(0)
  ROOT r = f32[<=4] negate(x)
}
"""


class ForeignBuffer(HostBuffer):
    """A buffer of another machine."""

    __slots__ = ()


class Foreign(CompiledBackend):
    """A platform that implements the two methods, and nothing else."""

    platform = "foreign"
    buffers = Buffers(
        ForeignBuffer,
        ForeignBuffer.from_value,
        ForeignBuffer.of_block,
        ForeignBuffer.of_elements,
    )

    def __init__(self) -> None:
        super().__init__(1, TARGET, LOWERINGS, Preparation([]))
        self._kernels = Kernels(None, HOST)
        self._pool = KernelThreads(self._kernels, 1)

    def load(self, compilation: Compilation) -> Program:
        code, assignment = compilation.code, compilation.assignment
        return Program(code, assignment, self._kernels, self._pool, BlockPool(), compilation.work)

    def to_device(self, literal: Literal, device: Device) -> ForeignBuffer:
        return ForeignBuffer.of_literal(literal, device)


def run(platform: Foreign, text: str, argument: HostBuffer) -> HostBuffer:
    module = parse_module(text)
    output = (
        platform.compile(module, module.entry_program_shape)
        .execute(
            [argument],
            device=platform.devices[0],
            options=ExecuteOptions(),
        )
        .output
    )
    assert isinstance(output, HostBuffer)
    return output


@pytest.mark.parametrize("text", [VECTOR_LOOP, SIZED])
def test_arguments_and_results_are_in_the_platform_s_memory(text: str) -> None:
    platform = Foreign()
    (device,) = platform.devices
    assert str(device) == "foreign:0"
    literal = Literal.from_numpy(X)
    assert type(run(platform, text, platform.to_device(literal, device))) is ForeignBuffer
    with pytest.raises(InvalidArgumentError, match="must be on the program's platform, got arg"):
        run(platform, text, HostBuffer.of_literal(literal, device))


def test_a_platform_with_nothing_to_prepare_is_prepared() -> None:
    assert Foreign().prepare()


def test_a_platform_needs_what_loads_programs() -> None:
    class Incomplete(Foreign):
        load = CompiledBackend.load

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()  # type: ignore[abstract]
