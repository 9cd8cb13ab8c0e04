"""Shared routines are compiled in the background, before the first program needs them."""

import functools
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from tests.unit.waiting import waits
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.compiled.precompilation import Preparation, by_likelihood
from xla_server.backends.interpreter import Interpreter
from xla_server.codegen import kernel
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.namespace import vocabulary
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.text.parser import parse_module
from xla_server.target.machine import Machine

ONE, OTHER = "xla_shared_product_tile_f32_1x1", "xla_shared_product_tile_f32_2x1"
PRODUCT = """HloModule product
ENTRY e {
  x = f32[64,64] parameter(0)
  ROOT p = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
SIZED = """HloModule sized
ENTRY e {
  x = f32[6] parameter(0)
  n = s32[] constant(4)
  y = f32[<=6] set-dimension-size(x, n), dimensions={0}
  ROOT z = f32[<=6] negate(y)
}
"""


class Slow:
    """Steps that block until they are released."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self.has_asked = threading.Event()
        self.may_go_on = threading.Event()
        self.preparation = Preparation([functools.partial(self._take, n) for n in range(count)])

    def _take(self, number: int) -> None:
        self.asked.append(number)
        self.has_asked.set()
        assert self.may_go_on.wait(100)


def loaded(kernels: Kernels, *symbols: str) -> bool:
    """Return whether a preparation of these functions gets to its end."""
    steps = [functools.partial(kernels.load_shared, symbol) for symbol in symbols]
    return Preparation(steps).run(lambda: False)


def in_a_thread(work: Callable[[], bool]) -> tuple[threading.Thread, list[bool]]:
    outcome: list[bool] = []
    thread = threading.Thread(target=lambda: outcome.append(work()))
    thread.start()
    return thread, outcome


def executed(cpu: Cpu, text: str) -> None:
    """Compile a program and run it once."""
    module = parse_module(text)
    executable = cpu.compile(module, module.entry_program_shape)
    executable.execute(
        [
            cpu.to_device(
                Literal.from_numpy(np.zeros(shape.dimensions, np.float32)), cpu.devices[0]
            )
            for shape in module.entry_program_shape.parameters
        ],
        device=cpu.devices[0],
        options=ExecuteOptions(),
    )


def test_a_prepared_platform_compiles_kernels_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what runs them: no native code is left to compile either."""
    cpu = Cpu(compilation_cache_dir=str(tmp_path), threads=2)
    assert cpu.prepare()
    monkeypatch.setattr(SharedFunction, "object_code", None)
    monkeypatch.setattr(kernel, "native_object", None)
    executed(cpu, PRODUCT)


def test_a_prepared_platform_has_a_loader_and_has_looked_at_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All that programs share is on disk already: nothing is added before the first program.
    for _ in range(2):
        cpu = Cpu(compilation_cache_dir=str(tmp_path), threads=2)
        assert cpu.prepare()
    kept = len(list(tmp_path.iterdir()))
    monkeypatch.setattr(kernel, "Loader", None)
    monkeypatch.setattr(os, "scandir", None)
    executed(cpu, PRODUCT)
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) > kept


def test_another_process_finds_them_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(Kernels(KernelCache(tmp_path)), ONE, OTHER)
    monkeypatch.setattr(SharedFunction, "object_code", None)
    assert loaded(Kernels(KernelCache(tmp_path)), ONE, OTHER)


def test_it_begins_nothing_while_somebody_compiles() -> None:
    slow = Slow(2)
    thread, outcome = in_a_thread(lambda: slow.preparation.run(lambda: False))
    assert slow.has_asked.wait(100)
    with slow.preparation.interrupted():
        with slow.preparation.interrupted():
            slow.may_go_on.set()
        assert waits(thread)
        assert slow.asked == [0]
    thread.join(100)
    assert (outcome, slow.asked) == ([True], [0, 1])


@pytest.mark.parametrize("text", [PRODUCT, SIZED])
def test_a_platform_yields_to_compilations(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for programs of dynamic shape, which are compiled when they run."""
    cpu = Cpu()
    urgent: list[int] = []
    made = Cpu._program

    def program(*arguments: Any, **named: Any) -> Any:
        urgent.append(cpu._preparation._urgent)
        return made(*arguments, **named)

    monkeypatch.setattr(Cpu, "_program", program)
    executed(cpu, text)
    assert urgent == [1]
    assert cpu._preparation._urgent == 0


def test_it_ends_when_requested() -> None:
    slow, is_over = Slow(2), threading.Event()
    thread, outcome = in_a_thread(lambda: slow.preparation.run(is_over.is_set))
    assert slow.has_asked.wait(100)
    is_over.set()
    slow.may_go_on.set()
    thread.join(100)
    assert (outcome, slow.asked) == ([False], [0])


def test_it_ends_when_requested_while_it_makes_way() -> None:
    slow, is_over = Slow(1), threading.Event()
    with slow.preparation.interrupted():
        thread, outcome = in_a_thread(lambda: slow.preparation.run(is_over.is_set))
        is_over.set()
        thread.join(100)
    assert (outcome, slow.asked) == ([False], [])


def test_a_function_that_fails_is_reported_and_fails_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(self: SharedFunction, machine: Machine) -> bytes:
        raise ValueError("no code")

    monkeypatch.setattr(SharedFunction, "object_code", fails)
    kernels = Kernels()
    with caplog.at_level(logging.WARNING):
        assert not loaded(kernels, ONE, OTHER)
    assert "cannot be compiled ahead" in caplog.text
    with pytest.raises(ValueError, match="no code"):
        kernels.load_shared(ONE)


def test_products_of_f32_come_first() -> None:
    shared = vocabulary(HOST).shared
    symbols = by_likelihood(shared)
    assert sorted(symbols) == sorted(shared)
    assert all("gemm" in symbol for symbol in symbols[:10])
    others = [symbol for symbol in symbols if "fourier" not in symbol]
    assert symbols[: len(others)] == others
    first_rare = next(n for n, symbol in enumerate(others) if "f64" in symbol)
    assert not any("f32" in symbol for symbol in others[first_rare:])


def test_an_interpreter_has_nothing_to_prepare() -> None:
    assert Interpreter().prepare()
    text = (
        "import sys\n"
        "from xla_server.app.options.settings import Settings\n"
        "from xla_server.app.platforms import create_backend\n"
        "assert create_backend(Settings(platform='interpreter')).prepare()\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
