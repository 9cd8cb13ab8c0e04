"""F16 in kernels, by a processor's instructions and by integers: every number, and every tie."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.processors import HOST, MACHINES, assembles, runs
from tests.unit.codegen.compiled import built, interpreted, on_cpu
from xla_client import ops
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.compiled.cpu import Cpu
from xla_server.target.machine import Machine
from xla_server.target.target import Target

PROCESSORS = [
    pytest.param(HOST, id="host"),
    pytest.param(MACHINES["sse2"], id="sse2", marks=assembles),
]
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
ODD = 13
"""Numbers that no vector divides."""


def _converted(machine: Machine, x: Any, kind: E) -> tuple[Any, Any]:
    """Return numbers converted by kernels of a machine, and by the interpreter."""
    if not runs(machine):
        pytest.skip("the host runs no code of this processor")
    module = built(lambda p: ops.convert_element_type(p, kind), [x])
    (found,) = on_cpu(module, [x], Cpu(target=Target.of(machine)))
    (expected,) = interpreted(module, [x])
    return found, expected


def _is_signalling(codes: Any) -> Any:
    bits = codes.view(np.uint16)
    return ((bits & 0x7E00) == 0x7C00) & ((bits & 0x1FF) != 0)


def around_ties() -> Any:
    """Return numbers of F32 around each number of F16 and each tie between two of them."""
    numbers = np.unique(np.abs(EVERY[np.isfinite(EVERY)])).astype(np.float32)
    ends = np.append(numbers, np.float32(65536))
    ties = (ends[:-1] + ends[1:]) / 2
    exact = np.concatenate([ends, ties, [1e9, np.inf, 2e-45, 1e-39]]).astype(np.float32)
    below, above = (np.nextafter(exact, np.float32(to)) for to in (-np.inf, np.inf))
    near = np.concatenate([below, exact, above])
    payloads = np.uint32(0x7F800000) + np.array([1, 0x1FFF, 0x2000, 0x3FFFFF, 0x400000, 0x7FFFFF])
    drawn = np.random.default_rng(5).integers(0, 1 << 32, 1 << 16, np.uint32)
    both = np.concatenate([near, payloads.astype(np.uint32).view(np.float32)])
    return np.concatenate([both, -both, drawn.view(np.float32), np.zeros(ODD, np.float32)])


@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize("kind", [E.F32, E.F64])
def test_every_number_widens_as_numpy_and_comes_back(machine: Machine, kind: E) -> None:
    wide, interpreted_as = _converted(machine, EVERY, kind)
    assert_equal_bits(wide, interpreted_as)
    with np.errstate(invalid="ignore"):
        exact = EVERY.astype(wide.dtype)
    quiet = ~_is_signalling(EVERY)
    assert_equal_bits(wide[quiet], exact[quiet])
    back, _ = _converted(machine, wide, E.F16)
    numbers = ~np.isnan(EVERY)
    assert_equal_bits(back[numbers], EVERY[numbers])


@pytest.mark.parametrize("machine", PROCESSORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_around_every_tie_round_as_numpy(machine: Machine, dtype: Any) -> None:
    with np.errstate(invalid="ignore"):
        numbers = around_ties().astype(dtype)
    found, interpreted_as = _converted(machine, numbers, E.F16)
    assert_equal_bits(found, interpreted_as)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = numbers.astype(np.float16)
    is_number = ~np.isnan(numbers)
    assert_equal_bits(found[is_number], exact[is_number])
    assert np.isnan(found[~is_number]).all()


@pytest.mark.parametrize("machine", PROCESSORS)
def test_a_nan_keeps_its_bits_where_it_is_moved_and_its_upper_ones_where_it_is_narrowed(
    machine: Machine,
) -> None:
    nans = EVERY[np.isnan(EVERY)]
    wide, _ = _converted(machine, nans, E.F32)
    codes, bits = nans.view(np.uint16).astype(np.uint32), wide.view(np.uint32)
    assert_equal_bits(bits, (codes & 0x8000) << 16 | 0x7F800000 | (codes & 0x3FF) << 13)
    back, _ = _converted(machine, wide, E.F16)
    assert_equal_bits(back.view(np.uint16), (codes | 0x200).astype(np.uint16))


@pytest.mark.parametrize("function", [ops.sign, ops.tanh, ops.round_nearest_even])
def test_a_function_that_keeps_the_sign_takes_f64_by_way_of_f32(function: Any) -> None:
    x = np.array([-2.5, -0.0, 1 + 2.0**-11 + 2.0**-40, np.nan, -1e-9])

    def program(p: Any) -> Any:
        narrow = ops.convert_element_type(ops.convert_element_type(p, E.F32), E.F16)
        return ops.convert_element_type(function(narrow), E.F32)

    def rounded_late(p: Any) -> Any:
        return ops.convert_element_type(function(ops.convert_element_type(p, E.F32)), E.F16)

    for stated in (program, rounded_late):
        module = built(stated, [x])
        assert_equal_bits(on_cpu(module, [x])[0], interpreted(module, [x])[0])
