"""The benchmark of a GPU's driver runs on the twin, where its times say nothing."""

import pytest

from tests.benchmarks import cuda_driver_figures
from tests.benchmarks.cuda_driver_figures import PROGRAMS, figures
from tests.cuda_twin.device.driver import TwinDriver
from tests.cuda_twin.device.toolchain import HostToolchain
from tests.cuda_twin.device.twin import DEVICE


def test_all_figures_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAUNCHES", "GRAPH_CALLS"):
        monkeypatch.setattr(cuda_driver_figures, name, 1)
    monkeypatch.setattr(cuda_driver_figures, "PROGRAMS", {"-a": PROGRAMS["-a"]})
    found = figures(TwinDriver(), HostToolchain(DEVICE), 1 << 18)
    assert {"-a, of a copy", "the same with new addresses us", "the same by the library us"} < set(
        found
    )
    assert min(found.values()) > 0
