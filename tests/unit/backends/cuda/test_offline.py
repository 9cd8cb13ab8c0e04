"""Compilation for GPUs where there is none."""

import pytest

from tests.unit.backends.cuda.test_backend import FED, STEP
from xla_contract.errors import InternalError, InvalidArgumentError
from xla_server.backends.cuda.offline import compile_for
from xla_server.codegen.gpu import ptx
from xla_server.ir.text.parser import parse_module
from xla_server.target.gpu import GPUS


@pytest.mark.parametrize("capability", GPUS)
def test_kernels_become_ptx(capability: str) -> None:
    _, files, told = compile_for(capability, parse_module(STEP), None)
    assert told == ["on the device: 1 kernel"]
    assert f".target {capability}".encode() in bytes(files["kernels_00.ptx"])  # type: ignore[arg-type]


def test_what_goes_through_the_host_is_told() -> None:
    _, files, told = compile_for("sm_90", parse_module(FED), None)
    assert told == ["on the device: nothing", "through the host: %i (infeed), 1 call of Python"]
    assert "steps through the host: 1" in str(files["places.txt"]).splitlines()


def test_a_capability_must_be_known() -> None:
    with pytest.raises(InvalidArgumentError, match=r"one of sm_80, .*, got sm_70"):
        compile_for("sm_70", parse_module(STEP), None)


def test_a_kernel_without_ptx_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(text: str) -> None:
        raise ptx.PtxError("none for this")

    monkeypatch.setattr(ptx, "check_intrinsics", refused)
    with pytest.raises(InternalError, match="must have PTX, got none for this"):
        compile_for("sm_90", parse_module(STEP), None)
