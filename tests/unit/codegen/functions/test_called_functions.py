"""Called elementary functions have the bits of the inlined ones, for any number of elements at
once.
"""

import ctypes
import functools
from typing import Any

import numpy as np
import pytest
from numba import types

from tests import numba_front_end
from tests.kept_kernels import kept_kernels
from tests.processors import HOST
from tests.ulps.functions import BINARY, REFERENCE
from tests.ulps.samples import operands_of
from xla_server.codegen import kernel as kernels
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.shared_functions import LANES
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.functions.called_functions import CALLED, ELEMENTARY, LIKELY, called
from xla_server.codegen.kernel import Kernels, kernel_object, symbol_of
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Load, Usage, plus, times
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

CHEAP = ("rsqrt", "sign", "sqrt")
NAMES = [name.removeprefix("called_") for name in CALLED]


@functools.cache
def _kernels() -> Kernels:
    return kept_kernels()


def _operands(name: str, count: int) -> list[Any]:
    function, kind = name.split("_")
    return operands_of(function, kind, count, seed=3)


def _rows(function: str, width: int) -> Kernel:
    """A kernel over rows of so many elements each."""
    name, kind = function.removeprefix("called_").split("_")
    count = 2 if name in BINARY else 1
    buffers = [Buffer(k, Usage.READ) for k in range(count)]
    result = Buffer(count, Usage.WRITE)
    kernel = Body()
    with Items(kernel, 1 << 30) as items, Loop(items, "j", width) as row:
        at = row.let("at", plus(times(items.axis, width), row.axis))
        loads = tuple(Load(buffer, Type(kind), at) for buffer in buffers)
        row.store(result, kind, at, Apply(function, loads, Type(kind)))
    return Kernel((*buffers, result), (), tuple(kernel.statements))


def _ran(kernel: Kernel, width: int, operands: list[Any]) -> Any:
    return _run(_kernels().get(kernel).address, width, operands)


def _run(address: int, width: int, operands: list[Any]) -> Any:
    result = np.empty_like(operands[0])
    table = np.array([array.ctypes.data for array in (*operands, result)], np.int64)
    unused = np.zeros(2, np.int64)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(address)
    call(unused.ctypes.data, unused.ctypes.data + 8, table.ctypes.data, 0, result.size // width)
    return result


def test_all_but_cheap_ones_may_be_called() -> None:
    functions = set(REFERENCE) - set(CHEAP)
    every = {f"{function}_{kind}" for function in functions for kind in LANES}
    assert set(NAMES) == every
    assert called("exp_f32") == "called_exp_f32"
    for name in ("sign_f32", "sqrt_f64", "add", "exp_c64", "called_exp_f32"):
        assert called(name) == name
    with pytest.raises(TypeError, match="must have 1 operands"):
        CALLED["called_exp_f32"].signature(None, (types.float32, types.float32))


def _calls(symbol: str, kind: str, lanes: int, operands: int) -> str:
    """LLVM's text of a function that calls another for so many numbers at a time."""
    single = {"f32": "float", "f64": "double"}[kind]
    form = single if lanes == 1 else f"<{lanes} x {single}>"
    step = lanes * int(kind[1:]) // 8
    reads = "".join(
        f"  %p{k} = getelementptr i8, ptr %a{k}, i64 %at\n"
        f"  %x{k} = load {form}, ptr %p{k}, align 4\n"
        for k in range(operands)
    )
    given = ", ".join(f"{form} %x{k}" for k in range(operands))
    addresses = ", ".join(f"ptr %a{k}" for k in range(operands))
    return f"""declare {form} @{symbol}({", ".join([form] * operands)})
define void @run_{symbol}({addresses}, ptr %result, i64 %bytes) {{
entry:
  br label %body
body:
  %at = phi i64 [0, %entry], [%next, %body]
{reads}  %y = call {form} @{symbol}({given})
  %p = getelementptr i8, ptr %result, i64 %at
  store {form} %y, ptr %p, align 4
  %next = add i64 %at, {step}
  %more = icmp slt i64 %next, %bytes
  br i1 %more, label %body, label %end
end:
  ret void
}}
"""


@pytest.mark.parametrize("name", NAMES)
def test_the_bits_are_those_of_inlined_functions(name: str) -> None:
    kind, function = name[-3:], CALLED[f"called_{name}"]
    operands = [np.ascontiguousarray(each[-4096:]) for each in _operands(name, 4096)]
    expected = _ran(_rows(name, 16), 16, operands)
    number = ~np.isnan(expected)
    word = np.uint32 if kind == "f32" else np.uint64
    variants = zip((1, *LANES[kind]), (function, *function.variants), strict=True)
    for lanes, variant in variants:
        _kernels().load_shared(variant.symbol)
        code = object_of_module(
            ModuleText(_calls(variant.symbol, kind, lanes, len(operands))), HOST
        )
        address = _kernels()._base.load(code, f"run_{variant.symbol}")
        found = np.empty_like(expected)
        addresses = [array.ctypes.data for array in (*operands, found)]
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (len(addresses) + 1))(address)
        call(*addresses, found.nbytes)
        np.testing.assert_array_equal(np.isnan(found), ~number)
        np.testing.assert_array_equal(found.view(word)[number], expected.view(word)[number])


@pytest.mark.parametrize("name", ["exp_f32", "log_f64", "pow_f32"])
def test_loops_of_any_length_have_the_bits_of_inlined_functions(name: str) -> None:
    operands = [np.ascontiguousarray(each[-3600:]) for each in _operands(name, 3600)]
    expected = _ran(_rows(name, 16), 16, operands)
    for width in (1, 3, 9, 18):
        found = _ran(_rows(f"called_{name}", width), width, operands)
        np.testing.assert_array_equal(found, expected)


def test_vectors_are_asked_for_at_once() -> None:
    for name in ("exp_f32", "log_f64", "pow_f32"):
        kernel = _rows(f"called_{name}", 16)
        (symbol,) = undefined_symbols(kernel_object(kernel, HOST))
        assert symbol in ELEMENTARY
        assert symbol.startswith(f"xla_shared_{name}_of_")


def test_numba_calls_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_numba(kernel: Kernel, machine: Machine) -> bytes:
        return numba_front_end.kernel_object(kernel, symbol_of(kernel.key), machine)

    operands = _operands("exp_f32", 64)
    kernel = _rows("called_exp_f32", 1)
    expected = _ran(kernel, 1, operands)
    assert undefined_symbols(by_numba(kernel, HOST)) & vocabulary(HOST).shared.keys()
    monkeypatch.setattr(kernels, "kernel_object", by_numba)
    own = Kernels()
    found = _run(own.get(kernel).address, 1, operands)
    np.testing.assert_array_equal(found, expected)


def test_the_likely_ones_are_prepared() -> None:
    of_one = {function.symbol for function in CALLED.values()}
    elementary = {*ELEMENTARY, *of_one}
    known = vocabulary(HOST)
    assert set(known.shared) >= elementary
    assert set(known.prepared) & elementary == LIKELY
    assert set(known.prepared) | elementary == set(known.shared)
    assert set(known.names) >= set(CALLED)
