"""Machine code of PTX: what comes out, where there is none, and what is kept on disk."""

import dataclasses
from pathlib import Path

import pytest

from tests.unit.codegen.gpu.emit.assembling import VERSION, install_ptxas
from tests.unit.codegen.gpu.emit.test_ptx import HEAD, SM_90
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit import assembler
from xla_server.codegen.gpu.emit.assembler import Assembler, AssemblyError
from xla_server.codegen.gpu.emit.device_module import DeviceModule, Resources
from xla_server.codegen.gpu.emit.ptx import PtxCompiler


@pytest.fixture
def ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assembler:
    return Assembler("sm_89", VERSION, install_ptxas(tmp_path, monkeypatch))


def kernels(*names: str) -> str:
    bodies = (f"define ptx_kernel void @{name}() {{\n  ret void\n}}\n" for name in names)
    return HEAD + "".join(bodies)


def compiled(assembler: Assembler, *names: str, cache: KernelCache | None = None) -> DeviceModule:
    with PtxCompiler(SM_90, cache, assembler) as compiler:
        return compiler.module(kernels(*names))


def test_a_module_is_machine_code_of_an_architecture(ptxas: Assembler) -> None:
    found = compiled(ptxas, "one", "other")
    assert found.code == found.cubin == b"-v -arch=sm_89 one other"
    assert b".target sm_90" in found.ptx
    assert found.compiler == f"ptxas {VERSION} for sm_89"
    assert found.resources == dict.fromkeys(("one", "other"), Resources(24, 8, 16))
    assert str(found.resources["one"]) == "24 registers, 8 bytes of stack, 16 bytes spilled"
    assert str(Resources(24)) == "24 registers"


@pytest.mark.parametrize("change", [{"missing": "it is gone"}, {"architecture": "sm_130"}])
def test_where_there_is_none_the_driver_has_the_ptx(
    change: dict[str, str], ptxas: Assembler
) -> None:
    found = compiled(dataclasses.replace(ptxas, **change), "one")
    assert (found.code, found.cubin) == (found.ptx, b"")
    assert b".entry one(" in found.ptx
    reason = change.get("missing", f"ptxas {VERSION} does not know sm_130")
    assert found.compiler == f"the driver, as {reason}"


def test_ptx_without_machine_code_is_an_error_of_one_module(
    ptxas: Assembler, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = r"13.5.37 must have machine code for sm_89, got 1: ptxas, line 5; error   : no$"
    with PtxCompiler(SM_90, None, ptxas) as compiler:
        with pytest.raises(AssemblyError, match=expected):
            compiler.module(kernels("refused"))
        assert compiler.module(kernels("one")).cubin
    monkeypatch.setattr(assembler, "_TIMEOUT", 0.1)
    with pytest.raises(AssemblyError, match=r"machine code of PTX, got .*timed out after 0.1"):
        compiled(ptxas, "hangs")
    with pytest.raises(AssemblyError, match=r"machine code of PTX, got .*No such file"):
        compiled(dataclasses.replace(ptxas, program="/no/ptxas"), "one")


def test_machine_code_is_kept_on_disk_by_architecture_and_version(
    ptxas: Assembler, tmp_path: Path
) -> None:
    cache = KernelCache(tmp_path / "kernels")
    expected = dataclasses.astuple(compiled(ptxas, "one", cache=cache))
    gone = dataclasses.replace(ptxas, program="/no/ptxas")
    assert dataclasses.astuple(compiled(gone, "one", cache=cache)) == expected
    for change in ({"architecture": "sm_90"}, {"version": "13.6"}):
        with pytest.raises(AssemblyError, match="No such file"):
            compiled(dataclasses.replace(gone, **change), "one", cache=cache)
    driver = dataclasses.replace(gone, missing="it is gone")
    assert not compiled(driver, "one", cache=cache).cubin
