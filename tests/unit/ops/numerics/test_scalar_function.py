"""Extremes of many floats: NaN beats all, and -0 is below 0, in whatever order they come."""

import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.passes.passing import imported
from xla_contract.types.element_type import ElementType as E
from xla_server.ops.indexing.topk import ordering_keys
from xla_server.ops.numerics.scalar_function import accumulator_dtype

BODIES = {
    "rows": "[40] reduce(x, i), dimensions={1}",
    "columns": "[9] reduce(x, i), dimensions={0}",
    "windows": "[40,9] reduce-window(x, i), window={size=1x3 pad=0_0x1_1}",
    "running": "[40,9] reduce-window(x, i), window={size=1x9 pad=0_0x8_0}",
    "scatter": "[40,9] scatter(x, at, x), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
}
TYPES = (E.F32, E.F64, E.BF16, E.F16, E.F8E5M2)


def text(opcode: str, initial: str, body: str, kind: E) -> str:
    return f"""HloModule m
    c {{ a = {kind.text}[] parameter(0)
      b = {kind.text}[] parameter(1)
      ROOT r = {kind.text}[] {opcode}(a, b) }}
    ENTRY e {{ x = {kind.text}[40,9] parameter(0)
      at = s32[40,1] parameter(1)
      i = {kind.text}[] constant({initial})
      ROOT q = {kind.text}{body}, to_apply=c }}"""


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.text)
@pytest.mark.parametrize("name", BODIES)
def test_both_platforms_give_the_same_zero(name: str, kind: E) -> None:
    random = np.random.default_rng(5)
    some = np.array([0.0, -0.0, 1, -1, np.nan]).astype(kind.dtype)
    x = random.choice(some, (40, 9), p=[0.42, 0.42, 0.05, 0.05, 0.06])
    at = (np.arange(40, dtype=np.int32) % 7)[:, None]
    for opcode, initial in (("maximum", "-inf"), ("minimum", "inf"), ("maximum", "-0.0")):
        module = imported(text(opcode, initial, BODIES[name], kind))
        for ours, expected in zip(
            interpreted(module, [x, at]), on_cpu(module, [x, at]), strict=True
        ):
            assert_equal_bits(ours, expected)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.text)
def test_the_interpreter_orders_zeros(kind: E) -> None:
    for opcode, sign in (("maximum", False), ("minimum", True)):
        module = imported(text(opcode, "-0.0" if sign else "0", BODIES["rows"], kind))
        for first, second in itertools.permutations([0.0, -0.0]):
            x = np.full((40, 9), first).astype(kind.dtype)
            x[:, 4] = second
            (result,) = interpreted(module, [x, np.zeros((40, 1), np.int32)])
            assert (result == 0).all()
            assert (np.signbit(result) == sign).all()


def test_elements_that_nothing_is_combined_with_stay() -> None:
    module = imported(text("maximum", "-inf", BODIES["scatter"], E.F32))
    x = np.full((40, 9), -1e-45, np.float32)
    (result,) = interpreted(module, [x, np.zeros((40, 1), np.int32)])
    assert (result[1:] == np.float32(-1e-45)).all()


@pytest.mark.parametrize("element", [np.float32, np.int8, np.complex64, ml_dtypes.bfloat16])
def test_types_that_were_pickled_are_accumulated_as_others_are(element: Any) -> None:
    dtype: np.dtype[Any] = np.dtype(element)
    pickled = pickle.loads(pickle.dumps(dtype))
    for ufunc in (np.add, np.multiply, np.maximum):
        assert accumulator_dtype(ufunc, pickled) == accumulator_dtype(ufunc, dtype)
    if dtype.kind != "c":
        array = np.arange(-3, 4).astype(dtype)
        pickled_array = pickle.loads(pickle.dumps(array))
        np.testing.assert_array_equal(ordering_keys(pickled_array), ordering_keys(array))
