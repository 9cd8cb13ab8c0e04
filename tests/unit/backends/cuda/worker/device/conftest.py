"""A driver over bindings that use memory of the host."""

import ctypes
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.backends.cuda.worker.fake_bindings import MODULE_NAME, FakeBindings, FakeLibrary
from xla_host.environment_variables import WORK_QUEUES


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBindings]:
    fake = FakeBindings()
    package = types.ModuleType("cuda.bindings")
    package.driver = fake  # type: ignore[attr-defined]
    for name, module in {"cuda": types.ModuleType("cuda"), "cuda.bindings": package}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeLibrary())
    monkeypatch.delitem(sys.modules, MODULE_NAME, raising=False)
    # The driver sets it, and it is restored.
    monkeypatch.setenv(WORK_QUEUES.name, "")
    monkeypatch.delenv(WORK_QUEUES.name)
    yield fake
    sys.modules.pop(MODULE_NAME, None)


@pytest.fixture
def opened(cuda: FakeBindings) -> Callable[[int], Any]:
    made: Callable[[int], Any] = importlib.import_module(MODULE_NAME).CudaDriver
    return made


@pytest.fixture
def driver(opened: Callable[[int], Any]) -> Any:
    return opened(1)
