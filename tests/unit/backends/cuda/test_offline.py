"""Compilation for GPUs where there is none."""

from pathlib import Path

import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.unit.backends.cuda.test_backend import FED, STEP
from tests.unit.codegen.compiled import imported
from tests.unit.codegen.gpu.emit.assembling import VERSION, install_ptxas, remove_ptxas
from xla_contract.errors import InternalError, InvalidArgumentError
from xla_server.backends.cuda.offline import compile_for
from xla_server.codegen.gpu.emit import ptx
from xla_server.ir.text.parser import parse_module
from xla_server.target.gpu.properties import GPUS

DRIVER = (
    "machine code by the driver, as nvidia-cuda-nvcc is not installed: "
    "pip install 'xla-service[cuda]'"
)


@pytest.mark.parametrize("capability", GPUS)
def test_kernels_become_ptx(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_ptxas(monkeypatch)
    _, files, reported = compile_for(capability, parse_module(STEP), None)
    counts = "in all: 1 launch, 4 operations, 32 bytes"
    assert reported == ["on the device: 1 kernel", DRIVER, counts]
    assert DRIVER in str(files["places.txt"]).splitlines()
    assert f".target {capability}".encode() in bytes(files["kernels_00.ptx"])  # type: ignore[arg-type]
    assert "kernels_00.cubin" not in files


def test_machine_code_and_its_registers_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ptxas(tmp_path, monkeypatch)
    _, files, reported = compile_for("sm_90", parse_module(STEP), None)
    assert f"machine code by ptxas {VERSION} for sm_90" in reported
    assert bytes(files["kernels_00.cubin"]).startswith(b"-v -arch=sm_90 ")  # type: ignore[arg-type]
    assert b".target sm_90" in bytes(files["kernels_00.ptx"])  # type: ignore[arg-type]
    resources = "threads, 24 registers, 8 bytes of stack, 16 bytes spilled"
    assert resources in str(files["places.txt"])


def test_what_goes_through_the_host_is_reported() -> None:
    _, files, reported = compile_for("sm_90", parse_module(FED), None)
    counts = "in all: 0 launches, 0 operations, 0 bytes"
    assert reported == [
        "on the device: nothing",
        counts,
        "through the host: %i (infeed), 1 call of Python",
    ]
    assert "steps through the host: 1" in str(files["places.txt"]).splitlines()


PRODUCTS = """HloModule products
ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[8,2] parameter(1)
  d = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[4,2] exponential(d)
  ROOT r = (f32[4,2], f32[4,2]) tuple(d, e)
}
"""


def test_operations_and_bytes_of_each_launch_are_counted() -> None:
    _, files, reported = compile_for("sm_90", parse_module(PRODUCTS), None)
    listed = [line.split() for line in str(files["places.txt"]).splitlines()]
    thunks = [line for line in listed if line[:1] and line[0].isdigit()]
    # Two for each product, and for the arrays of 32, 16 and 8 elements 4 bytes each.
    assert ["library", "128", "224"] in [line[1:4] for line in thunks]
    operations, sizes = (sum(int(line[n]) for line in thunks) for n in (2, 3))
    assert f"in all: {len(thunks)} launches, {operations} operations, {sizes} bytes" in reported
    assert operations > 128
    # The exponential reads and writes 8 elements.
    assert sizes == 224 + 64


def test_calls_of_lapack_are_counted() -> None:
    module = imported(lower(lax.linalg.lu, np.zeros((2, 6, 6), np.float32)))
    _, files, _ = compile_for("sm_90", module, None)
    listed = [line.split() for line in str(files["places.txt"]).splitlines()]
    # Two matrices of 36 elements, six pivots and a status, and their addresses.
    assert ["library", "288", str(2 * (4 * (36 + 6 + 1) + 8))] in [line[1:4] for line in listed]


def test_a_capability_must_be_known() -> None:
    with pytest.raises(InvalidArgumentError, match=r"one of sm_80, .*, got sm_70"):
        compile_for("sm_70", parse_module(STEP), None)


def test_a_kernel_without_code_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object, text: str) -> None:
        raise ptx.PtxError("none for this")

    monkeypatch.setattr(ptx.PtxCompiler, "module", refused)
    with pytest.raises(InternalError, match="must have code, got none for this"):
        compile_for("sm_90", parse_module(STEP), None)
