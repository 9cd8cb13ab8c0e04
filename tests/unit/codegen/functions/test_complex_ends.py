"""Complex functions of the largest, smallest, infinite and undefined numbers."""

import numpy as np
import pytest

from tests.elementwise_operations import OPERATIONS
from tests.platforms import compiled_platform
from tests.unit.codegen.compiled import on_platform
from xla_client import Builder
from xla_contract.ops.elementwise.elementwise import UNARY
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module

FUNCTIONS = [
    opcode
    for opcode in UNARY
    if opcode is not Opcode.ABS and OPERATIONS[opcode].complex is not None
]


@pytest.mark.parametrize("kind", [ElementType.C64, ElementType.C128])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_ends_are_those_of_the_definition(function: Opcode, kind: ElementType) -> None:
    numbers = np.finfo(kind.dtype)
    large, small = float(numbers.max), float(numbers.tiny)
    sizes = [1, 0.5, 2, 30, 700, 1000, large, large / 2, large / 4, large**0.5, small, small**0.5]
    sizes += [0, np.inf, 4 * small, 1 + float(numbers.eps), 1 - float(numbers.eps) / 2]
    parts = np.array([*sizes, *(-size for size in sizes), np.nan])
    z = np.empty((len(parts), len(parts)), kind.dtype)
    z.real, z.imag = parts[:, None], parts
    if function is Opcode.SINH:
        # The sign is free of an infinite part beside one that is not a number.
        z = z[~(np.isinf(z.real) & ~np.isfinite(z.imag))]
    builder = Builder("ends")
    x = builder.parameter(0, f"{kind.text}[{z.size}]")
    module = import_module(builder.build(builder.instruction(function, [x])).proto)
    expected = np.asarray(evaluate(module, [z.ravel()]))
    (found,) = on_platform(compiled_platform("cpu"), module, [z.ravel()])
    # Errors are ULPs of the larger part, if that is finite.
    larger = np.maximum(np.abs(expected.real), np.abs(expected.imag))
    for ours, theirs in ((found.real, expected.real), (found.imag, expected.imag)):
        finite = np.isfinite(theirs)
        np.testing.assert_array_equal(ours[~finite], theirs[~finite])
        ours, theirs, place = ours[finite], theirs[finite], z.ravel()[finite]
        size = np.where(np.isfinite(larger[finite]), larger[finite], np.abs(theirs))
        near = np.abs(ours - theirs) <= 64 * numbers.eps * size + 256 * small
        assert near.all(), (place[~near], ours[~near], theirs[~near])
