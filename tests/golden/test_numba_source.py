"""The numba source of kernels, compiled by numba's own front end, against their machine code."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.golden.kernels import PROGRAMS
from tests.numba_front_end import kernel_object
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen import kernel as kernels
from xla_server.codegen.kernel import Kernels, LoadedKernel, symbol_of
from xla_server.codegen.kernel_ir.expressions import Role
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.ir.text.parser import parse_module
from xla_server.runtime.native import callable_at
from xla_server.target.machine import Machine


def _results(
    kernel: LoadedKernel, thunk: KernelThunk, constants: Mapping[Value, Any]
) -> list[bytes]:
    """Run a kernel on its constants and buffers of small numbers.

    Return what is in them then, but for scratch memory.
    """
    random = np.random.default_rng(0)
    buffers: list[Any] = []
    for value in thunk.arguments:
        count = max(1, value.shape.element_count)
        numbers = random.integers(0, 5, count).astype(value.shape.element_type.dtype)
        if value in constants:
            # Where a copy reads and writes is a constant.
            buffers.append(np.array(constants[value]))
            continue
        # Nothing is cancelled.
        buffers.append(numbers if value in (*thunk.reads, *thunk.writes) else numbers * 0)
    table = np.array([array.ctypes.data for array in buffers])
    callable_at(kernel.address, 3)(table.ctypes.data, 0, thunk.work_items)
    assert isinstance(thunk.kernel, Kernel)
    # A sort leaves addresses in its scratch memory.
    scratch = {each.number for each in thunk.kernel.buffers if each.role is Role.SCRATCH}
    return [array.tobytes() for n, array in enumerate(buffers) if n not in scratch]


@pytest.mark.parametrize("name", PROGRAMS)
def test_numba_makes_the_same_of_the_source(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile_module(parse_module(PROGRAMS[name].read_text())).code
    thunks = kernels_of(code)
    emitted = Kernels().get_all(thunk.kernel for thunk in thunks)

    def by_numba(kernel: Kernel, machine: Machine) -> bytes:
        return kernel_object(kernel, symbol_of(kernel.key), machine)

    monkeypatch.setattr(kernels, "kernel_object", by_numba)
    for thunk in thunks:
        compiled, expected = Kernels().get(thunk.kernel), emitted[thunk.kernel.key]
        found = _results(compiled, thunk, code.constants)
        assert found == _results(expected, thunk, code.constants)
