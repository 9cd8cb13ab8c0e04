"""Kernels compiled once, in one module for those that are missing."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.backends.cuda.programs import grid
from tests.unit.codegen.gpu.emit.assembling import VERSION, install_ptxas, remove_ptxas
from xla_server.backends.cuda.toolchain import DeviceModules, find_assembler, symbol_of
from xla_server.buffers.code import KernelError
from xla_server.codegen.gpu.emit.assembler import Assembler
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.emit.ptx import PtxError
from xla_server.codegen.gpu.grid import GridKernel


class Compiler:
    """Modules that list their symbols; it has no code for kernels of `refused`, or for several."""

    def __init__(self, *refused: GridKernel, together: bool = True) -> None:
        self.refused, self.together = {symbol_of(each.key) for each in refused}, together
        self.modules: list[list[str]] = []

    def compile(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        self.modules.append(list(kernels))
        if self.refused & kernels.keys() or (len(kernels) > 1 and not self.together):
            raise PtxError(f"no code for {len(kernels)}")
        return DeviceModule(" ".join(kernels).encode())

    def close(self) -> None:
        self.modules = []


def symbols(*kernels: GridKernel) -> list[str]:
    return [symbol_of(kernel.key) for kernel in kernels]


def test_missing_kernels_are_one_module_and_others_stay_where_they_are() -> None:
    compiler = Compiler()
    modules = DeviceModules(compiler)
    first = modules.get_all([grid(1), grid(2), grid(1)])
    second = modules.get_all([grid(2), grid(3)])
    assert compiler.modules == [symbols(grid(1), grid(2)), symbols(grid(3))]
    assert first[grid(2).key] is second[grid(2).key]
    assert second[grid(3).key].code == symbols(grid(3))[0].encode()


def test_kernels_that_no_program_has_are_compiled_again() -> None:
    compiler = Compiler()
    modules = DeviceModules(compiler)
    modules.get_all([grid(1)])
    modules.get_all([grid(1)])
    assert len(compiler.modules) == 2


def test_a_program_without_kernels_asks_for_nothing() -> None:
    compiler = Compiler()
    assert DeviceModules(compiler).get_all([]) == {}
    assert compiler.modules == []


@pytest.mark.parametrize(
    ("compiler", "count", "named", "cause"),
    [
        (Compiler(grid(2)), 3, 2, "no code for 1"),
        # A fault of all together is reported of the first.
        (Compiler(together=False), 2, 1, "no code for 2"),
    ],
)
def test_the_kernel_that_has_no_code_is_named(
    compiler: Compiler, count: int, named: int, cause: str
) -> None:
    with pytest.raises(KernelError) as raised:
        DeviceModules(compiler).get_all([grid(n) for n in range(1, count + 1)])
    assert raised.value.kernel.key == grid(named).key
    assert str(raised.value.__cause__) == cause


@pytest.mark.parametrize(
    ("architectures", "expected"),
    [
        (["sm_90"], "sm_90"),
        (["sm_89", "sm_80", "sm_86"], "sm_80"),
        (["sm_121", "sm_120"], "sm_120"),
    ],
)
def test_machine_code_is_that_of_the_oldest_gpu(
    architectures: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = install_ptxas(tmp_path, monkeypatch)
    assert find_assembler(architectures) == Assembler(expected, VERSION, path)


def test_gpus_of_several_majors_have_none_in_common() -> None:
    found = find_assembler(["sm_100", "sm_90", "sm_90"])
    assert found == Assembler(missing="GPUs of sm_90 and sm_100 have no machine code in common")


def test_what_is_not_installed_is_reported_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove_ptxas(monkeypatch)
    assert find_assembler(["sm_90"]).missing.startswith("nvidia-cuda-nvcc is not installed: pip ")


def test_a_package_without_the_program_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ptxas(tmp_path, monkeypatch, "nvcc")
    assert find_assembler(["sm_90"]).missing == f"nvidia-cuda-nvcc {VERSION} lists no ptxas"
