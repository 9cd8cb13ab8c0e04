"""Lifetime of kernels, and their remains."""

import gc
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xla_server.buffers.code import KernelError
from xla_server.codegen import kernel as kernels
from xla_server.codegen.kernel import Kernels, LoadedKernel
from xla_server.codegen.kernel_ir.expressions import Buffer, Index, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.runtime.native import callable_at


def _storing(number: int) -> Kernel:
    place = Buffer(0, Usage.SCRATCH)
    return Kernel((place,), (), (Store(place, Type.I64, Index(0), Index(number)),))


def _stored(kernel: LoadedKernel) -> int:
    place = np.zeros(1, np.int64)
    table = np.array([place.ctypes.data])
    callable_at(kernel.address, 3)(table.ctypes.data, 0, 1)
    return int(place[0])


def _areas() -> int:
    """The areas of memory of this process, of which the system allows so many."""
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_code_goes_with_the_last_kernel_that_was_loaded_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "LOADED_TOGETHER", 2)
    made = Kernels()
    found = [made.get(_storing(number)) for number in range(3)]
    first, second = (weakref.ref(found[k].library) for k in (0, 2))
    assert found[1].library is first()
    found[0] = found[2]
    gc.collect()
    assert _stored(found[1]) == 1
    found[1] = found[2]
    gc.collect()
    assert first() is None
    assert second() is not None
    assert _stored(found[2]) == 2


def test_only_kernels_of_the_loop_ir_are_compiled() -> None:
    other: Any = SimpleNamespace(text="", key="other")
    with pytest.raises(KernelError) as caught:
        Kernels().get(other)
    rule = r"must be of the loop IR \(Kernel\), got SimpleNamespace$"
    assert re.search(rule, str(caught.value.__cause__))


def test_a_loader_takes_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Kernels()
    first = made.get(_storing(0))
    monkeypatch.setattr(kernels, "LOADED_BYTES", first.byte_size)
    assert made.get(_storing(1)).library is not first.library


def test_a_kernel_that_has_gone_comes_back_from_where_its_code_is() -> None:
    made = Kernels()
    kept = made.get(_storing(0))
    address = made.get(_storing(1)).address
    gc.collect()
    again = made.get(_storing(1))
    assert (again.library, again.address) == (kept.library, address)
    assert _stored(again) == 1


def test_kernels_of_a_program_share_areas_of_memory() -> None:
    made = Kernels()
    kept = made.get(_storing(0))
    before = _areas()
    found = made.get_all([_storing(number) for number in range(40)])
    assert _areas() - before < 20
    assert [_stored(kernel) for kernel in found.values()] == list(range(40))
    assert found[_storing(0).key] is kept


def test_what_others_have_compiled_and_not_loaded_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Kernels()
    code = made._code(_storing(3))
    monkeypatch.setattr(kernels, "kernel_object", None)
    found = made.get(_storing(3))
    assert (_stored(found), found.byte_size) == (3, len(code))


def test_a_kernel_outlives_those_it_came_from() -> None:
    kernel = Kernels().get(_storing(5))
    gc.collect()
    assert _stored(kernel) == 5
