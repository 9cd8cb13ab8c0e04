"""Launches have chunks for every core, on machines of few cores and of many; nothing is run."""

from collections.abc import Sequence

import pytest

from tests.unit.threads import no_threads
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules.builders.launches.chunks import calls_of, chunk_of
from xla_server.ir.text.parser import parse_module
from xla_server.runtime.threads import _HELPERS, KernelThreads
from xla_server.target.machine import Machine
from xla_server.target.target import Target

CORES = (1, 2, 8, 64, 128)

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"

PROGRAMS = {
    "elementwise": "x = f32[16777216] parameter(0) ROOT r = f32[16777216] negate(x)",
    "rows": "x = f32[8192,2048] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[8192] reduce(x, z), dimensions={1}, to_apply=add",
    "columns": "x = f32[512,262144] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[262144] reduce(x, z), dimensions={0}, to_apply=add",
    "short rows": "x = f32[1000000,9,7] parameter(0) "
    "ROOT r = f32[7,1000000,9] transpose(x), dimensions={2,0,1}",
    "pad of a long row": "x = f32[8388608] parameter(0) z = f32[] constant(0) "
    "n = f32[8388608] negate(x) ROOT r = f32[8388610] pad(n, z), padding=1_1",
    "pad of rows": "x = f32[4096,4096] parameter(0) z = f32[] constant(0) "
    "n = f32[4096,4096] negate(x) ROOT r = f32[4096,4098] pad(n, z), padding=0_0x1_1",
    "concatenate": "x = f32[16384,999] parameter(0) y = f32[16384,999] parameter(1) "
    "ROOT r = f32[16384,1998] concatenate(x, y), dimensions={1}",
    "transpose": "x = f32[4096,4096] parameter(0) "
    "ROOT r = f32[4096,4096] transpose(x), dimensions={1,0}",
    "windows": "x = f32[64,4096,512] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[64,4082,512] reduce-window(x, z), window={size=1x15x1}, to_apply=add",
    "product": "x = f32[4096,1024] parameter(0) y = f32[1024,4096] parameter(1) "
    "ROOT r = f32[4096,4096] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "product by BLAS": "x = c64[4096,1024] parameter(0) y = c64[1024,4096] parameter(1) "
    "ROOT r = c64[4096,4096] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "product with a vector": "x = f32[65536,4096] parameter(0) y = f32[4096] parameter(1) "
    "ROOT r = f32[65536] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "x = f32[64,128,128,64] parameter(0) w = f32[5,5,64,64] parameter(1) "
    "ROOT r = f32[64,128,128,64] convolution(x, w), window={size=5x5 pad=2_2x2_2}, "
    "dim_labels=b01f_01io->b01f",
    "scatter": "x = f32[4096,16384] parameter(0) i = s32[65536,1] parameter(1) "
    "u = f32[65536,16384] parameter(2) ROOT r = f32[4096,16384] scatter(x, i, u), "
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=add",
    "sort": "x = f32[4096,4096] parameter(0) "
    "ROOT r = f32[4096,4096] sort(x), dimensions={1}, to_apply=lt",
    "transform": "x = c64[65536,256] parameter(0) "
    "ROOT r = c64[65536,256] fft(x), fft_type=FFT, fft_length={256}",
    "systems": "a = f32[1024,1024] parameter(0) b = f32[1024,262144] parameter(1) "
    "ROOT r = f32[1024,262144] triangular-solve(a, b), left_side=true, lower=true, "
    "unit_diagonal=false, transpose_a=NO_TRANSPOSE",
    "running sums": "x = f32[4096,65536] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[4096,65536] reduce-window(x, z), window={size=4096x1 pad=4095_0x0_0}, "
    "to_apply=add",
}
"""Instructions of large programs, each of more work than 128 cores need."""

FEW = {"systems": 8}
"""Chunks of programs whose last bits depend on how they are divided."""


def _launches(program: str, target: Target) -> Sequence[KernelThunk]:
    compare = "lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), "
    text = f"HloModule m\n{ADD}{compare}direction=LT }}\nENTRY e {{ {PROGRAMS[program]} }}\n"
    return kernels_of(compile_module(parse_module(text), target=target).code)


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_large_launches_have_chunks_for_every_core(program: str, cores: int) -> None:
    target = Target.of(Machine.avx2(cores=cores))
    chunks = target.tuning.loops.chunks
    launches = _launches(program, target)
    most = max(launches, key=lambda each: each.work_items * each.work)
    calls = calls_of(most.work_items, most.work, most.prologue, chunks)
    assert calls >= min(2 * cores, FEW.get(program, 2 * cores))
    # No call is so short that handing it to another thread takes a large part of it.
    for each in launches:
        chunk = chunk_of(each.work_items, each.work, each.prologue, chunks)
        is_one_call = chunk >= each.work_items
        assert is_one_call or 2 * chunk * each.work >= chunks.parallel_work


@pytest.mark.parametrize("cores", CORES)
def test_each_core_has_a_thread(cores: int) -> None:
    kernels = Kernels(machine=Machine.avx2(cores=cores))
    assert KernelThreads(kernels).count == cores
    assert KernelThreads(kernels, 3).count == 3


def test_loops_have_helpers_once_the_system_gives_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelThreads, "_work", lambda *_: None)
    threads = KernelThreads(Kernels(machine=Machine.avx2()), 3)
    with no_threads():
        threads.start()
    assert not threads._tasks[_HELPERS]
    threads.start()
    assert threads._tasks[_HELPERS] == 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_more_cores_have_no_fewer_chunks(program: str) -> None:
    counts = []
    for cores in CORES:
        target = Target.of(Machine.avx2(cores=cores))
        chunks = target.tuning.loops.chunks
        launches = _launches(program, target)
        counts.append([calls_of(k.work_items, k.work, k.prologue, chunks) for k in launches])
    assert counts == sorted(counts)
    assert len({len(each) for each in counts}) == 1
