"""Lifetime of kernels, and their remains."""

import dataclasses
import gc
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.buffers.code import KernelError
from xla_server.codegen import kernel as kernels
from xla_server.codegen.kernel import Kernels, LoadedKernel, kernel_object
from xla_server.codegen.kernel_ir.expressions import Buffer, Index, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.execution.start_thread import start_thread
from xla_server.runtime.native import callable_at
from xla_server.target.machine import Machine


def _storing(number: int) -> Kernel:
    cell = Buffer(0, Usage.SCRATCH)
    return Kernel((cell,), (), (Store(cell, Type.I64, Index(0), Index(number)),))


def _stored(kernel: LoadedKernel) -> int:
    cell = np.zeros(1, np.int64)
    table = np.array([cell.ctypes.data])
    callable_at(kernel.address, 3)(table.ctypes.data, 0, 1)
    return int(cell[0])


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


def test_code_of_a_fragmented_process_goes_with_its_own_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "MANY_LOADS", 2)
    made = Kernels()
    found = [made.get(_storing(number)) for number in range(3)]
    assert found[1].library is found[0].library
    assert found[2].library is not found[0].library
    alone = weakref.ref(found.pop().library)
    found.append(made.get(_storing(3)))
    gc.collect()
    assert alone() is None
    assert [_stored(kernel) for kernel in found] == [0, 1, 3]


def test_no_more_code_is_loaded_than_the_system_has_areas_of_memory_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "MANY_LOADS", 0)
    monkeypatch.setattr(kernels, "MAX_LOADS", 2)
    made = Kernels()
    found = [made.get(_storing(number)) for number in range(2)]
    with pytest.raises(ResourceExhaustedError, match="loaded code 2 times, got one time more"):
        made.get(_storing(2))
    assert made.get(_storing(1)) is found[1]
    del found[0]
    gc.collect()
    found.append(made.get(_storing(2)))
    assert [_stored(kernel) for kernel in found] == [1, 2]


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


def _on_two_cores() -> Kernels:
    return Kernels(machine=dataclasses.replace(Machine.host(), cores=2))


def test_kernels_of_a_program_are_compiled_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = threading.Barrier(2)

    def compiled(kernel: Any, machine: Machine) -> bytes:
        both.wait(100)
        return kernel_object(kernel, machine)

    monkeypatch.setattr(kernels, "kernel_object", compiled)
    found = _on_two_cores().get_all([_storing(1), _storing(2)])
    assert [_stored(kernel) for kernel in found.values()] == [1, 2]


def test_an_error_that_another_thread_meets_is_that_of_its_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, wrong = _on_two_cores(), _storing(1)
    met = threading.Event()

    def compiled(kernel: Any, machine: Machine) -> bytes:
        if kernel is wrong:
            met.set()
            raise ValueError("wrong")
        assert met.wait(100)
        return kernel_object(kernel, machine)

    monkeypatch.setattr(kernels, "kernel_object", compiled)
    with pytest.raises(KernelError) as caught:
        made.get_all([_storing(0), wrong])
    assert caught.value.kernel is wrong
    assert str(caught.value.__cause__) == "wrong"
    assert not made._unloaded


def test_without_other_threads_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ResourceExhaustedError("no threads")

    monkeypatch.setattr(kernels, "start_thread", refuse)
    found = _on_two_cores().get_all([_storing(1), _storing(2)])
    assert [_stored(kernel) for kernel in found.values()] == [1, 2]


def test_programs_that_are_compiled_at_the_same_time_share_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, begun = _on_two_cores(), threading.Event()
    started: list[str] = []

    def compiled(kernel: Any, machine: Machine) -> bytes:
        if kernel.key == _storing(1).key:
            begun.set()
            # The only helper is busy until this program is compiled.
            made.get_all([_storing(2), _storing(3)])
        assert begun.wait(100)
        return kernel_object(kernel, machine)

    def start(target: Any, name: str) -> threading.Thread:
        started.append(name)
        return start_thread(target, name)

    monkeypatch.setattr(kernels, "kernel_object", compiled)
    monkeypatch.setattr(kernels, "start_thread", start)
    made.get_all([_storing(0), _storing(1)])
    assert len(started) == 1
    made.get_all([_storing(4), _storing(5)])
    assert len(started) == 2


def test_what_others_compile_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, both = Kernels(), threading.Barrier(2)
    compiled: list[Any] = []
    get = kernels._ObjectCode.get

    def requested(code: kernels._ObjectCode) -> bytes:
        # Both want the code before either has it.
        both.wait(100)
        return get(code)

    def compile_kernel(kernel: Any, machine: Machine) -> bytes:
        compiled.append(kernel)
        return kernel_object(kernel, machine)

    monkeypatch.setattr(kernels._ObjectCode, "get", requested)
    monkeypatch.setattr(kernels, "kernel_object", compile_kernel)
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(made.get, [_storing(3), _storing(3)])
        assert [_stored(kernel) for kernel in found] == [3, 3]
    assert len(compiled) == 1


def test_a_kernel_outlives_those_it_came_from() -> None:
    kernel = Kernels().get(_storing(5))
    gc.collect()
    assert _stored(kernel) == 5
