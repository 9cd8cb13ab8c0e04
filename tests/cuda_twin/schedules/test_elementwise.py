"""Elementwise operations as kernels for a GPU, on the host, beside the interpreter."""

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.kinds import every_type, floats
from tests.cuda_twin.programs import both, kernel_of
from tests.unit.codegen.compiled import built
from tests.unit.codegen.trace import elementwise_rows as rows
from tests.unit.codegen.trace.elementwise_rows import UNSIGNED
from xla_client import ops
from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.gpu.schedules import elementwise
from xla_server.codegen.kernel_ir.statements import Store
from xla_server.codegen.kernel_ir.walk import walk


@every_type
def test_every_operation(kind: E) -> None:
    rows.every_operation(kind).of_normal_numbers.check(both)


@every_type
def test_compare_select_and_clamp(kind: E) -> None:
    rows.compare_select_and_clamp(kind).of_normal_numbers.check(both)


@every_type
def test_convert_to_every_type(kind: E) -> None:
    rows.converted_to_every_type(kind).of_normal_numbers.check(both)


@every_type
def test_bitcast_convert_to_every_type(kind: E) -> None:
    rows.bitcast_to_every_type(kind).of_normal_numbers.check(both)


@floats
def test_reduce_precision_and_stochastic_convert(kind: E) -> None:
    rows.reduced_precision(kind).of_normal_numbers.check(both)
    if kind.bit_width in UNSIGNED:
        rows.stochastically_converted(kind).of_normal_numbers.check(both)


def test_magnitudes_of_numbers_of_all_sizes() -> None:
    """They are computed in F32, where squares overflow and underflow, and rounded correctly."""
    draw = np.random.default_rng(7)
    sizes = np.ldexp(1 + draw.random((2, 20_000)), draw.integers(-150, 128, (2, 20_000)))
    near = np.stack([sizes[0], sizes[0] * np.exp2(draw.integers(-14, 1, 20_000))])
    parts = np.concatenate([sizes, near, sizes[:, ::-1]], 1).astype(np.float32)
    ends = np.float32([0.0, -0.0, 1.0, 1e-45, 3e38, np.inf, -np.inf, np.nan])
    x = np.concatenate([parts[0], np.repeat(ends, ends.size)]).astype(np.complex64)
    x.imag = np.concatenate([-parts[1], np.tile(ends, ends.size)])
    ((ours, expected),) = both(ops.abs, x)
    with np.errstate(all="ignore"):
        right = np.hypot(x.real.astype(np.float64), x.imag).astype(np.float32)
    is_known = ~(np.isnan(x.real) | np.isnan(x.imag))
    # Subnormal results are rounded twice.
    is_normal = is_known & (right >= np.finfo(np.float32).tiny)
    assert_equal_bits(ours[is_normal], right[is_normal])
    np.testing.assert_array_max_ulp(ours[is_known], right[is_known], 1)
    assert np.isnan(ours[~is_known]).all()
    assert_equal_bits(np.isnan(ours), np.isnan(expected))


def test_a_number_is_stored_once() -> None:
    """It may be written over the one that it is computed from."""
    module = built(lambda x: ops.add(x, x), [np.int64(1)])
    statements = walk(kernel_of(module, module.entry.root).kernel.body)
    assert sum(isinstance(each, Store) for each, _ in statements) == 1


def test_two_runs_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise, "FULL_THREADS", 8)
    x = np.arange(64, dtype=np.float32)
    module = built(lambda x: (x + x) * x, [x])
    assert kernel_of(module, module.entry.root).kernel.items == 8
    ((ours, expected),) = both(lambda x: (x + x) * x, x)
    assert_equal_bits(ours, expected)
