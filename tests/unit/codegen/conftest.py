from collections.abc import Mapping
from typing import Any

import pytest

from tests.processors import MACHINES, WIDTHS
from xla_server.codegen.emit import llvm
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.target.machine import Machine


@pytest.fixture(autouse=True)
def _every_kernel_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel that a test compiles must obey the rules of the loop IR."""
    emit = llvm.kernel_module

    def verified(kernel: Kernel, names: Mapping[str, Any], symbol: str, machine: Machine) -> Any:
        verify(kernel)
        return emit(kernel, names, symbol, machine)

    monkeypatch.setattr(llvm, "kernel_module", verified)


@pytest.fixture(params=WIDTHS)
def machine(request: pytest.FixtureRequest) -> Machine:
    """A processor of each size of tiles."""
    return MACHINES[request.param]
