"""The groups of checks by their names."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tests.cuda.checks import GROUPS, Sides
from tests.cuda.conformance import become_conformance
from tests.cuda.driver_checks import driver_checks
from tests.cuda.facts import facts
from tests.cuda.fault_checks import fault_checks
from tests.cuda.library_checks import plan_checks
from tests.cuda.outcomes import Check, Outcome, outcomes
from xla_server.backends.cuda.toolchain import PtxToolchain, Toolchain
from xla_server.backends.cuda.worker.driver import Driver
from xla_server.target.machine import Machine

_OF_DRIVERS: Mapping[str, Callable[[Driver, Toolchain], Iterator[Check]]] = MappingProxyType(
    {"driver": driver_checks, "plans": lambda driver, _: plan_checks(driver)}
)


def outcomes_of(group: str, platform: str) -> Iterator[Outcome]:
    """Yield what becomes of the checks of a group on a platform.

    Raises KeyError for a name that no group has.
    """
    if group == "facts":
        return facts(platform)
    if group in _OF_DRIVERS:
        return outcomes(_OF_DRIVERS[group](*_driver_of(platform)))
    if group == "faults":
        return outcomes(fault_checks(Sides.of(platform)))
    if group == "conformance":
        become_conformance(platform)
    return outcomes(GROUPS[group](Sides.of(platform)))


def _driver_of(platform: str) -> tuple[Driver, Toolchain]:
    if platform == "cuda-twin":
        from tests.cuda_twin.driver import TwinDriver
        from tests.cuda_twin.toolchain import HostToolchain

        driver = TwinDriver()
        return driver, HostToolchain(Machine.cuda(driver.description.capability))
    module = importlib.import_module("xla_server.backends.cuda.worker.cuda_driver")
    device = module.CudaDriver(0)
    return device, PtxToolchain(Machine.cuda(device.description.capability))
