from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.processors import WIDTHS, compiled_for
from xla_server.codegen.emit import llvm
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.verify import verify


@pytest.fixture(autouse=True)
def _every_kernel_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel that a test compiles must obey the rules of the loop IR."""
    emit = llvm.kernel_module

    def verified(kernel: Kernel, names: Mapping[str, Any], symbol: str) -> Any:
        verify(kernel)
        return emit(kernel, names, symbol)

    monkeypatch.setattr(llvm, "kernel_module", verified)


@pytest.fixture(params=WIDTHS)
def processor(request: pytest.FixtureRequest) -> Iterator[str]:
    """A processor of each size of tiles, compiled for during the test."""
    with compiled_for(request.param):
        yield request.param
