"""However arguments and results lie, and whatever is given up, programs compute the same."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.sweep.draws.depth import drawn
from tests.executing import execute
from tests.property.random_programs.control import STEPS
from tests.property.random_programs.graphs import assert_alike, programs
from tests.unit.codegen.compiled import CPU, interpreted, laid
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape
from xla_server.ir.importer import import_module


def askew(array: Any) -> Literal:
    """The array where no line of the cache begins: a server keeps it in memory of its own, which
    programs may write over once it is given up.
    """
    memory = np.empty(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + 16
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return Literal.from_numpy(copy)


@drawn(12, 1500)
@given(st.data())
def test_layouts_and_donations_change_nothing(data: st.DataObject) -> None:
    program = data.draw(programs(STEPS))
    chance = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    module = import_module(program.proto)
    plain = module.entry_program_shape
    parameters = tuple(laid(shape, chance) for shape in plain.parameters)
    result = laid(plain.result, chance)
    executable = CPU.compile(module, ProgramShape(parameters, result, plain.parameter_names))
    device = CPU.devices[0]
    theirs = interpreted(module, program.arguments)
    # The second run writes over what the first one was given, where it may.
    for donated in ((), tuple(np.flatnonzero(chance.integers(0, 2, len(parameters))).tolist())):
        placed = [CPU.to_device(askew(array), device) for array in program.arguments]
        output: Any = execute(executable, device, placed, donated=donated).output
        assert output.shape == result
        value = output.literal.to_numpy()
        ours = list(value) if isinstance(value, tuple) else [value]
        for mine, other, error in zip(ours, theirs, program.errors, strict=True):
            assert_alike(mine, other, error)
