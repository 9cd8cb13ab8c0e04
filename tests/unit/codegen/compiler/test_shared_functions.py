"""Functions that kernels share: compiled once, loaded with the first kernel that calls them."""

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from llvmlite import ir
from numba import njit

from tests.processors import HOST
from xla_server.codegen import kernel as kernels
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.compiler.llvm_text import FunctionText
from xla_server.codegen.compiler.shared_functions import (
    PythonFunction,
    SharedFunction,
    TextFunction,
)
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import START, Apply, Buffer, Index, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Count, Routine, Unit, parameters, routine_of
from xla_server.codegen.kernel_ir.statements import Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

WORD = ir.IntType(64)


def _twice(function: Any, _: Machine) -> None:
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.add(function.args[0], function.args[0]))


def _thrice(function: Any, _: Machine) -> None:
    """Calls the other one."""
    builder = ir.IRBuilder(function.append_basic_block())
    form = ir.FunctionType(WORD, [WORD])
    other = ir.Function(function.module, form, TWICE.symbol)
    builder.ret(builder.add(builder.call(other, function.args), function.args[0]))


def _of_number(name: str) -> Routine:
    return Routine(name, parameters(Unit.COUNT, "number"), (Type.I64,))


TWICE = SharedFunction(_of_number("test_twice"), _twice)
THRICE = SharedFunction(_of_number("test_thrice"), _thrice)
PLACE = Buffer(0, Usage.SCRATCH)


def _calling(function: str, effort: Effort = Effort.OPTIMISED) -> Kernel:
    """A kernel that stores what a function makes of the first work item's number."""
    result = Apply(function, (START,), Type.I64)
    return Kernel((PLACE,), (), (Store(PLACE, Type.I64, Index(0), result),), effort)


def _add(monkeypatch: pytest.MonkeyPatch, function: SharedFunction) -> None:
    """Have kernels for the host know a function."""
    known = vocabulary(HOST)
    monkeypatch.setitem(known.names, function.__name__, function)  # type: ignore[arg-type]
    monkeypatch.setitem(known.shared, function.symbol, function)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (TWICE, THRICE):
        _add(monkeypatch, function)


def run(found: kernels.LoadedKernel, start: int) -> int:
    """Return the value that a kernel stores into its first buffer."""
    cell = np.zeros(1, np.int64)
    table = (ctypes.c_int64 * 1)(cell.ctypes.data)
    none = (ctypes.c_int64 * 2)()
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
    address = ctypes.addressof(none)
    call(found.address)(address, address, ctypes.addressof(table), start, 0)
    return int(cell[0])


def test_kernels_call_them_and_they_each_other() -> None:
    made = Kernels()
    assert run(made.get(_calling("test_thrice")), 7) == 21
    assert run(made.get(_calling("test_twice")), 7) == 14


def test_each_is_compiled_once_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TWICE.object_code(HOST) is TWICE.object_code(HOST)
    calling, other = (kernels.kernel_object(_calling(name), HOST) for name in ("test_twice", "neg"))
    assert undefined_symbols(calling) == {TWICE.symbol}
    assert not undefined_symbols(other)


def test_on_disk_they_are_beside_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _calling("test_twice")
    Kernels(KernelCache(tmp_path)).get(kernel)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(SharedFunction, "object_code", None)
    monkeypatch.setattr(kernels, "kernel_object", None)
    assert run(Kernels(KernelCache(tmp_path)).get(kernel), 4) == 8


@pytest.mark.parametrize("effort", Effort)
def test_a_kernel_says_how_much_is_done_for_it(
    effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    efforts: list[Effort] = []

    def object_of_module(module: Any, machine: Machine, effort: Effort) -> bytes:
        efforts.append(effort)
        return b""

    monkeypatch.setattr(kernels, "object_of_module", object_of_module)
    kernels.kernel_object(_calling("test_twice", effort), HOST)
    assert efforts == [effort]


@pytest.mark.parametrize("effort", Effort)
def test_any_effort_gives_the_same(effort: Effort, monkeypatch: pytest.MonkeyPatch) -> None:
    function = SharedFunction(_of_number("test_effort"), _twice, effort)
    _add(monkeypatch, function)
    assert run(Kernels().get(_calling("test_effort")), 21) == 42


def test_a_function_may_be_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def code(f: FunctionText) -> str:
        return f.plus("%number", f.opaque("2"))

    function = TextFunction(_of_number("test_text"), code)
    _add(monkeypatch, function)
    assert run(Kernels().get(_calling("test_text")), 5) == 7


class Pair(NamedTuple):
    """Two numbers."""

    first: Count
    second: Count


class Pairs(NamedTuple):
    """A number, and a pair for each way."""

    number: Count
    one: Pair
    other: Pair


@njit(error_model="numpy")
def _difference(pair):  # type: ignore[no-untyped-def]
    return pair.first - pair.second


def _weighed(factor: Count, pairs: Pairs) -> int:
    number, one, other = pairs
    return factor * (1000 * number + 100 * _difference(one) + other.first - pairs.other.second)


def test_a_function_may_have_records(monkeypatch: pytest.MonkeyPatch) -> None:
    function = PythonFunction(routine_of("test_weighed", _weighed), _weighed, Effort.PLAIN)
    _add(monkeypatch, function)
    operands = function.routine.operands({"factor": 2, "pairs": Pairs(3, Pair(9, 4), Pair(8, 1))})
    result = Apply("test_weighed", operands, Type.I64)
    kernel = Kernel((PLACE,), (), (Store(PLACE, Type.I64, Index(0), result),), Effort.PLAIN)
    assert run(Kernels().get(kernel), 0) == 2 * (3000 + 500 + 7)
