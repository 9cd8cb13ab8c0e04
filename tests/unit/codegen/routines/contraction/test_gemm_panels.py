"""Panels of matrices whose rows are contiguous along k, for processors of either width."""

import ctypes

import numpy as np
import pytest

from tests.processors import HOST
from tests.unit.codegen.assembled import object_of
from xla_server.codegen.compiler.llvm_text import Declaration
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.routines.contraction.gemm_panels import PANEL, PanelText, across
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS
from xla_server.target.machine import Machine

HEIGHT = 6


def panel(machine: Machine, kind: str, source: str) -> str:
    text = PanelText(Declaration("panel", PANEL.names, machine), KINDS[kind], source, HEIGHT)
    across(text)
    return text.text()


@pytest.mark.parametrize(("kind", "source"), [("f32", "f32"), ("f64", "f64"), ("i16", "i8")])
def test_every_number_of_k_indices_is_packed(kind: str, source: str) -> None:
    form = KINDS[kind]
    loader = Loader(HOST)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(
        loader.load(object_of(panel(HOST, kind, source), HOST), "panel")
    )
    per_step = 2 if form.pairs else 1
    dtype = Type(source).dtype
    for steps in range(1, 40):
        stored = np.random.default_rng(steps).integers(-99, 99, (HEIGHT - 1, steps))
        stored = stored.astype(dtype)
        packed = np.zeros(
            (-(-steps // per_step) + 9, HEIGHT, per_step), np.int16 if form.pairs else dtype
        )
        call(stored.ctypes.data, stored.strides[0], packed.ctypes.data, steps, HEIGHT - 1)
        rows = np.vstack([stored, stored[-1:]])
        for pair in range(per_step):
            wanted = rows[:, pair::per_step].T
            np.testing.assert_array_equal(packed[: len(wanted), :, pair], wanted)


def test_fewer_k_indices_than_a_vector_has_are_squares_of_quarters(machine: Machine) -> None:
    text = panel(machine, "f32", "f32")
    assert text.count("load <4 x i32>") == 4
    assert text.count(f"load <{machine.lanes(4)} x i32>") == 4
