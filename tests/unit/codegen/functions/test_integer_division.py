"""Division of integers, which vectors have none of: by floats that are wide enough."""

import re

import numpy as np
import pytest

from tests.processors import MACHINES, assembles
from tests.unit.codegen.assembled import assembly_of
from tests.unit.codegen.compiled import assert_same
from xla_client import Op, ops
from xla_server.codegen.kernel import module_of
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Const, Expression, Load, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type


def quotient_and_rest(x: Op, y: Op) -> Op:
    return ops.tuple([ops.div(x, y), ops.rem(x, y)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_all_pairs_of_bytes(dtype: type) -> None:
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    assert_same(quotient_and_rest, *np.meshgrid(numbers, numbers))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32])
def test_pairs_of_words_near_whole_quotients(dtype: type) -> None:
    random = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    divisors = np.concatenate([np.arange(-40, 40), random.integers(limits.min, limits.max, 400)])
    quotients = random.integers(limits.min, limits.max, (400, 1))
    products = quotients // np.where(divisors == 0, 1, divisors) * divisors
    values = np.concatenate([products + step for step in (-1, 0, 1)]).astype(dtype)
    others = np.broadcast_to(divisors.astype(dtype), values.shape)
    edges = np.array([limits.min, limits.max, 0, 1, limits.max - 1], np.int64).astype(dtype)
    assert_same(quotient_and_rest, values, np.ascontiguousarray(others))
    assert_same(quotient_and_rest, *np.meshgrid(edges, np.append(edges, dtype(limits.max))))


@assembles
@pytest.mark.parametrize("machine", ["avx2", "avx512"])
@pytest.mark.parametrize("function", ["div", "rem"])
@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "u16", "i32", "u32"])
def test_division_is_done_in_vectors(machine: str, function: str, kind: str) -> None:
    text = _assembly(machine, function, kind)
    assert re.search(r"\bvdivp[sd]\b", text)
    assert not re.search(r"\bi?div[bwlq]\b", text)


@assembles
@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_division_by_a_constant_is_a_multiplication(kind: str) -> None:
    assert not re.search(r"div", _assembly("avx2", "div", kind, Const(Type(kind), (7,))))


def _assembly(machine: str, function: str, kind: str, divisor: Expression | None = None) -> str:
    """The assembly of a loop that divides elements."""
    left, right, result = (
        Buffer(number, usage) for number, usage in enumerate((Usage.READ, Usage.READ, Usage.WRITE))
    )
    top, form = Body(), Type(kind)
    with Items(top, 4096) as items:
        by = divisor or Load(right, form, items.axis)
        found = Apply(function, (Load(left, form, items.axis), by), form)
        items.store(result, kind, items.axis, found)
    kernel = Kernel((left, right, result), (), tuple(top.statements))
    target = MACHINES[machine]
    return assembly_of(str(module_of(kernel, "kernel", target)), target)
