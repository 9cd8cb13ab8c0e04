"""PTX of kernels: what comes out, what is refused, and what an end of LLVM's process does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.programs import lower
from tests.cuda_twin.device.test_twin import turned
from tests.cuda_twin.kinds import every_type
from tests.cuda_twin.programs import kernels_of
from tests.unit.codegen.compiled import built, imported
from tests.unit.codegen.trace import elementwise_rows as rows
from xla_client import ops
from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit import ptx, ptx_child
from xla_server.codegen.gpu.emit.emitter import DATA_LAYOUT, TRIPLE, grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler, PtxError
from xla_server.codegen.kernel_ir.statements import Barrier
from xla_server.target.gpu.properties import GPUS
from xla_server.target.machine import Machine

HEAD = f'target triple = "{TRIPLE}"\ntarget datalayout = "{DATA_LAYOUT}"\n'
EXPONENTIAL = f"""{HEAD}
declare float @llvm.exp.f32(float)
define ptx_kernel void @k(ptr addrspace(1) %p) {{
  %x = load float, ptr addrspace(1) %p, align 4
  %y = call float @llvm.exp.f32(float %x)
  store float %y, ptr addrspace(1) %p, align 4
  ret void
}}
"""
"""LLVM ends its process at this: the back end calls a library that no GPU has."""

SM_90 = Machine.cuda("sm_90")


@pytest.fixture(scope="module")
def compilers() -> Iterator[dict[str, PtxCompiler]]:
    found = {name: PtxCompiler(Machine.cuda(name)) for name in GPUS}
    yield found
    for compiler in found.values():
        compiler.close()


def added(machine: Machine = SM_90) -> str:
    kernels = kernels_of(built(lambda x, y: x + y, [np.zeros(1024, np.float32)] * 2))
    return str(grid_module(kernels, machine))


@pytest.mark.parametrize("shift", [ops.shift_left, ops.shift_right_logical])
def test_a_shift_looks_at_the_whole_amount(shift: Any, compilers: dict[str, PtxCompiler]) -> None:
    """LLVM takes the lower half of it, and would leave out the comparison with the width."""
    module = built(lambda x, y: shift(x, y), [np.zeros(1, np.int64)] * 2)
    found = compilers["sm_90"].module(str(grid_module(kernels_of(module), SM_90))).ptx.decode()
    assert found.count("ld.global.b64") == 2
    assert "setp.lt.u64" in found


@pytest.mark.parametrize("name", GPUS)
def test_a_sum_has_accesses_of_four_elements(name: str, compilers: dict[str, PtxCompiler]) -> None:
    found = compilers[name].module(added(Machine.cuda(name))).ptx.decode()
    version = GPUS[name].ptx
    assert f".version {version // 10}.{version % 10}\n.target {name}\n" in found
    assert ".maxntid 256" in found
    # Two numbers of 32 bits may travel as one of 64.
    assert len(re.findall(r"ld\.global\.(?:v4\.b32|v2\.b64)", found)) == 2
    assert len(re.findall(r"st\.global\.(?:v4\.b32|v2\.b64)", found)) == 1
    assert len(re.findall(r"add\.rn\.f32(?:x2)?\s", found)) in (2, 4)


@pytest.mark.parametrize("name", GPUS)
def test_shared_arrays_and_barriers_have_ptx(name: str, compilers: dict[str, PtxCompiler]) -> None:
    text = str(grid_module({"k": turned(Barrier())}, Machine.cuda(name)))
    found = compilers[name].module(text).ptx.decode()
    assert ".shared .align 16 .b8 k_tile[256];" in found
    order = re.findall(r"st\.shared|bar\.sync|ld\.shared", found)
    assert order == ["st.shared", "bar.sync", "ld.shared"]


def test_a_row_stays_in_registers_behind_a_barrier(compilers: dict[str, PtxCompiler]) -> None:
    module = imported(lower(lambda x: jax.nn.softmax(x, axis=1), np.zeros((2, 4096), np.float32)))
    found = compilers["sm_90"].module(str(grid_module(kernels_of(module), SM_90))).ptx.decode()
    assert found.count("bar.sync") == 2
    assert found.count("ld.global.v4") == found.count("st.global.v4") == 4
    assert found.count("ld.global") == 4


@pytest.mark.parametrize("name", GPUS if FULL else ["sm_90"])
@every_type
def test_every_operation_has_ptx(kind: E, name: str, compilers: dict[str, PtxCompiler]) -> None:
    program = rows.every_operation(kind)
    module = built(
        lambda *p: ops.tuple([row(*p) for row in program.rows.values()], p[0].builder),
        program.arrays,
    )
    kernels = kernels_of(module)
    found = compilers[name].module(str(grid_module(kernels, Machine.cuda(name)))).ptx.decode()
    assert found.count(".visible .entry") == len(kernels)
    assert ".local" not in found  # Nothing lives on a stack.
    assert "call" not in found.replace(".callseq", "")
    assert ".approx" not in found


def test_a_sum_of_rows_has_five_shuffles(compilers: dict[str, PtxCompiler]) -> None:
    module = imported(lower(lambda x: jnp.sum(x, axis=1), np.zeros((64, 1024), np.float32)))
    for name, compiler in compilers.items():
        text = str(grid_module(kernels_of(module), Machine.cuda(name)))
        found = compiler.module(text).ptx.decode()
        assert found.count("shfl.sync.bfly.b32") == 5
        assert len(re.findall(r"ld\.global\.(?:v4\.b32|v2\.b64)", found)) == 8
        assert ".local" not in found


def test_products_and_sums_are_fused_only_where_a_formula_says_so(
    compilers: dict[str, PtxCompiler],
) -> None:
    module = built(lambda x, y: x * y + y, [np.zeros(1024, np.float32)] * 2)
    found = compilers["sm_90"].module(str(grid_module(kernels_of(module), SM_90))).ptx.decode()
    assert "fma" not in found
    assert found.count("mul.rn.f32") == found.count("add.rn.f32") == 4


def test_a_text_that_is_no_module_is_refused_and_the_process_lives_on() -> None:
    with PtxCompiler(SM_90) as compiler:
        compiler.module(added())
        child = compiler._child
        with pytest.raises(PtxError, match="must be LLVM's, got LLVM IR parsing error"):
            compiler.module("defin")
        compiler.module(added())
        assert compiler._child is child


def test_the_end_of_llvms_process_is_an_error_of_one_module() -> None:
    with PtxCompiler(SM_90) as compiler:
        expected = compiler.module(added()).ptx
        with pytest.raises(PtxError, match=r"must be one that LLVM has PTX for, got .*exp"):
            compiler.module(EXPONENTIAL)
        assert compiler.module(added()).ptx == expected


def test_a_version_of_ptx_too_old_for_the_gpu_is_such_an_error() -> None:
    machine = Machine.cuda("sm_100")
    old = Machine(machine.kind, machine.name, "+ptx80", gpu=machine.gpu)
    with PtxCompiler(old) as compiler, pytest.raises(PtxError, match=r"sm_100 with \+ptx80"):
        compiler.module(added(machine))


def test_a_process_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx, "_TIMEOUT", 0.0)
    compiler = PtxCompiler(SM_90)
    with pytest.raises(PtxError, match="TimeoutError"):
        compiler.module(added())
    assert compiler._child is None


def test_ptx_is_kept_on_disk_by_text_gpu_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = KernelCache(tmp_path / "kernels")
    with PtxCompiler(SM_90, cache) as compiler:
        expected = compiler.module(added()).ptx
    monkeypatch.setattr(ptx_child, "__name__", "no_such_module")
    with PtxCompiler(SM_90, cache) as compiler:
        assert compiler.module(added()).ptx == expected
    with PtxCompiler(Machine.cuda("sm_80"), cache) as compiler, pytest.raises(PtxError):
        compiler.module(added())
    newer = Machine(SM_90.kind, SM_90.name, "+ptx83", gpu=SM_90.gpu)
    with PtxCompiler(newer, cache) as compiler, pytest.raises(PtxError):
        compiler.module(added())
