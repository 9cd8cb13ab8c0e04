"""Arguments and results lie as the entry says, whatever kernels read and write."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.compiled import laid
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.text.parser import parse_module

TEXT = """HloModule m
ENTRY e {
  x = f32[2,3,4] parameter(0)
  y = f32[3,4] parameter(1)
  wide = f32[2,3,4] broadcast(y), dimensions={1,2}
  sum = f32[2,3,4] add(x, wide)
  turned = f32[4,2,3] transpose(x), dimensions={2,0,1}
  flat = f32[6,4] reshape(sum)
  fixed = f32[2,2] constant({{1,2},{3,4}})
  inner = (f32[3,4], f32[6,4]) tuple(y, flat)
  ROOT all = (f32[2,3,4], f32[4,2,3], f32[2,3,4], (f32[3,4], f32[6,4]), f32[2,2], f32[2,3,4])
    tuple(sum, turned, x, inner, fixed, x)
}
"""
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Y = np.arange(100, 112, dtype=np.float32).reshape(3, 4)
FIXED = np.array([[1, 2], [3, 4]], np.float32)
CPU = Cpu(threads=1)


@pytest.mark.parametrize("donated", [(), (0,), (0, 1)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_dimensions(seed: int, donated: tuple[int, ...]) -> None:
    chance = np.random.default_rng(seed)
    module = parse_module(TEXT)
    plain = module.entry_program_shape
    parameters = tuple(laid(shape, chance) for shape in plain.parameters)
    entry = ProgramShape(parameters, laid(plain.result, chance), plain.parameter_names)
    executable = CPU.compile(module, entry)
    for orders in itertools.product("CF", repeat=2):
        literals = [
            Literal.from_numpy(np.array(array, order=order))  # type: ignore[call-overload]
            for array, order in zip((X, Y), orders, strict=True)
        ]
        output: Any = executable.execute(
            [CPU.to_device(literal, CPU.devices[0]) for literal in literals],
            device=CPU.devices[0],
            options=ExecuteOptions(donated=donated),
        ).output
        assert output.shape == output.literal.shape == entry.result
        total, turned, x, (y, flat), fixed, again = output.literal.to_numpy()
        np.testing.assert_array_equal(total, X + Y)
        np.testing.assert_array_equal(turned, X.transpose(2, 0, 1))
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(again, X)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(flat, (X + Y).reshape(6, 4))
        np.testing.assert_array_equal(fixed, FIXED)
        minor_to_major = entry.result.tuple_shapes[0].layout.minor_to_major
        in_memory = (X + Y).transpose(minor_to_major[::-1]).reshape(-1)
        first = output.elements[0].literal
        np.testing.assert_array_equal(first.linear_memory(), in_memory)
