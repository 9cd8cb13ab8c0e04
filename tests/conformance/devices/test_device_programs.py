"""Programs that run on each device as they are written, with the answers that jaxlib stored."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.grids import BACKENDS, run_per_device
from tests.device_programs import DeviceProgram, device_program, names
from xla_contract.stubs import hlo_pb2
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

PROGRAMS = [name for name in names() if device_program(name).spmd is not None]
EXACT = {
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
}
"""Operations whose results have the bits of XLA's CPU backend."""
AROUND = {"add", "bitcast", "call", "constant", "copy", "get-tuple-element", "multiply", "or"}
AROUND |= {"parameter", "reshape", "tuple"}
AROUND |= {
    f"{part}-{half}" for part in ("all-gather", "all-reduce", "async") for half in ("start", "done")
}


def module_of(program: DeviceProgram) -> HloModule:
    assert program.spmd is not None
    module = import_module(hlo_pb2.HloModuleProto.FromString(program.spmd))
    module.grid = program.grid
    return module


def per_device(program: DeviceProgram) -> list[list[Any]]:
    shards = [argument.shards for argument in program.arguments]
    return [[part[d] for part in shards] for d in range(program.grid.size)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("platform", sorted(BACKENDS))
def test_each_device_computes_what_it_does_in_xla(name: str, platform: str) -> None:
    program = device_program(name)
    module = module_of(program)
    found = run_per_device(platform, module, per_device(program))
    opcodes = {str(i.opcode) for i in module.instructions()}
    for number, result in enumerate(program.results):
        shards = [values[number] for values in found]
        result.check(shards)
        if opcodes <= EXACT | AROUND:
            assert_equal_bits(np.stack(shards), result.shards)
