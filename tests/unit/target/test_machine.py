import dataclasses
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import xla_server
from tests.processors import MACHINES
from xla_server.target.available import available_cores
from xla_server.target.gpu.properties import GPUS, MAX_BLOCK_THREADS, STATIC_SHARED_BYTES
from xla_server.target.machine import Architecture, Machine


def test_the_host_is_what_llvm_and_the_system_report(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("NAME", "FEATURES"):
        monkeypatch.delenv(f"NUMBA_CPU_{word}", raising=False)
    host = Machine.host()
    assert host.name == llvm.get_host_cpu_name()
    assert all(host.has(name) == has for name, has in llvm.get_host_cpu_features().items())
    assert host.cores == available_cores()
    assert host.l2_bytes > 0
    assert host is Machine.host()


@pytest.mark.parametrize("name", MACHINES)
def test_variables_name_another_processor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MACHINES[name]
    monkeypatch.setenv("NUMBA_CPU_NAME", machine.name)
    monkeypatch.setenv("NUMBA_CPU_FEATURES", machine.features)
    host = Machine.host()
    assert (host.name, host.features) == (machine.name, machine.features)
    assert host.vector_set == machine.vector_set


def test_cores_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_server.target.machine.available_cores", lambda: 128)
    assert Machine.host().cores == 128


@pytest.mark.parametrize(
    ("machine", "size", "registers", "sums", "vectors", "has_masks"),
    [
        (Machine.sse2(), 32, 16, 8, "SSE2", False),
        (Machine.avx2(), 32, 16, 32, "AVX2", False),
        (Machine.avx512(), 64, 32, 32, "AVX-512", True),
        (Machine.neon(), 32, 16, 8, "NEON", False),
    ],
    ids=lambda value: value.name if isinstance(value, Machine) else None,
)
def test_vectors_follow_features(
    machine: Machine, size: int, registers: int, sums: int, vectors: str, has_masks: bool
) -> None:
    assert machine.vector_bytes == size
    assert machine.vector_registers == registers
    assert machine.partial_sums == sums
    assert machine.vector_set == vectors
    assert machine.has_masks == has_masks
    assert machine.is_x86 == (machine.kind is Architecture.X86_64) == (vectors != "NEON")
    assert [machine.lanes(width) for width in (4, 8)] == [size // 4, size // 8]


def test_instructions_convert_f16_where_the_processor_has_them() -> None:
    assert not Machine.sse2().converts_halves
    assert all(m.converts_halves for m in (Machine.avx2(), Machine.avx512(), Machine.neon()))
    assert not dataclasses.replace(Machine.sse2(), kind=Architecture.OTHER).converts_halves


def test_only_one_machine_of_avx512_multiplies_pairs_at_once() -> None:
    assert Machine.avx512(has_vnni=True).has("avx512f", "avx512vnni")
    assert not Machine.avx512().has("avx512f", "avx512vnni")


def test_the_last_word_on_a_feature_counts() -> None:
    def has(features: str, *names: str) -> bool:
        return dataclasses.replace(Machine.sse2(), features=features).has(*names)

    words = "+avx2,+avx512f,-avx512f,-fma,+fma"
    assert has(words, "avx2", "fma")
    assert not has(words, "avx512f")
    assert has("")
    assert not has("", "sse2")


def test_only_the_record_reads_it_at_all() -> None:
    root = Path(xla_server.__file__).parent
    readers = {
        path.name
        for path in root.rglob("*.py")
        if any(word in path.read_text() for word in ("get_host_cpu", "CPU_NAME", "CPU_FEATURES"))
    }
    assert readers <= {"machine.py"}


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_is_known_by_its_compute_capability(name: str) -> None:
    machine = Machine.cuda(name)
    gpu = machine.gpu
    assert gpu is GPUS[name]
    assert (machine.kind, machine.name) == (Architecture.NVPTX64, name)
    assert machine.has(f"ptx{gpu.ptx}")
    # Versions before have 4352 bytes of arguments.
    assert gpu.ptx >= 81
    assert not machine.is_x86
    assert (machine.cores, machine.l2_bytes) == (gpu.multiprocessors, gpu.l2_bytes)
    assert STATIC_SHARED_BYTES < gpu.block_shared_bytes < gpu.shared_bytes
    assert gpu.threads % MAX_BLOCK_THREADS in (0, MAX_BLOCK_THREADS // 2)


def test_a_gpu_of_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of sm_80, .*, got sm_70"):
        Machine.cuda("sm_70")


def test_processors_have_no_gpu() -> None:
    assert all(machine.gpu is None for machine in (Machine.host(), *MACHINES.values()))
