"""LLVM functions that are written as text."""

import ctypes

import pytest

from tests.processors import HOST
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import (
    Declaration,
    FunctionText,
    ModuleText,
    TextLoop,
    lanes_of,
    suffix_of,
)
from xla_server.codegen.compiler.loader import Loader


def ran(f: FunctionText, result: str, *operands: int) -> int:
    loader = Loader(HOST)
    address = loader.load(object_of_module(ModuleText(f.text(result)), HOST), "tried")
    word = ctypes.c_int64
    return int(ctypes.CFUNCTYPE(word, *[word] * len(operands))(address)(*operands))


def test_numbers_are_computed() -> None:
    f = FunctionText(Declaration("tried", ["x", "y"], HOST))
    found = f.address(f.smaller("%x", "%y"), ("%x", 100), ("%y", "10"))
    assert ran(f, f.minus(found, "1"), 17, 5) == 5 + 1700 + 50 - 1


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_loop_carries_its_values(is_plain: bool) -> None:
    f = FunctionText(Declaration("tried", ["stop"], HOST), is_plain=is_plain)
    loop = TextLoop(f, "1", "%stop", 2, [("i64", "0")])
    (total,) = loop.values
    added = f.plus(total, loop.number)
    loop.end([added])
    assert ran(f, added, 8) == 1 + 3 + 5 + 7
    f = FunctionText(Declaration("tried", ["stop"], HOST))
    loop = TextLoop(f, "3", "%stop", 1, [])
    loop.end()
    assert ran(f, f.opaque(loop.number), 0) == 3


def test_vectors_are_named_as_intrinsics_name_them() -> None:
    assert lanes_of("<16 x float>") == 16
    assert [suffix_of(f"<4 x {kind}>") for kind in ("float", "double", "i32")] == [
        *("v4f32", "v4f64", "v4i32")
    ]


def test_a_mask_leaves_out_elements_of_memory() -> None:
    f = FunctionText(Declaration("tried", ["source", "target", "count"], HOST))
    vector = "<4 x float>"
    mask = f.mask(4, 0, "%count")
    value = f.read(vector, f.pointer("%source"), 4, mask)
    doubled = f.fma(vector, value, f.splat("float", 4, "2.0"), "zeroinitializer")
    f.write(vector, doubled, f.pointer("%target"), 4, mask)
    source, target = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_float * 4)(9, 9, 9, 9)
    ran(f, "0", ctypes.addressof(source), ctypes.addressof(target), 3)
    assert list(target) == [2, 4, 6, 9]
