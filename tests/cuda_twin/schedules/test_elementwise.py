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
