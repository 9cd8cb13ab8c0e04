"""The groups of checks by their names."""

from collections.abc import Iterator

from tests.cuda.checks.convolution_checks import convolution_outcomes
from tests.cuda.checks.driver_checks import driver_checks
from tests.cuda.checks.fault_checks import cancel_checks, fault_checks
from tests.cuda.checks.graph_checks import graph_checks
from tests.cuda.checks.library_checks import plan_checks
from tests.cuda.checks.outcomes import Outcome, outcomes
from tests.cuda.checks.platform_checks import GROUPS, Sides
from tests.cuda.conformance import become_conformance
from tests.cuda.facts import facts
from tests.platforms import driver_of


def outcomes_of(group: str, platform: str) -> Iterator[Outcome]:
    """Yield what becomes of the checks of a group on a platform.

    Raises KeyError for a name that no group has.
    """
    if group == "facts":
        return facts(platform)
    if group == "driver":
        return outcomes(driver_checks(*driver_of(platform)))
    if group == "plans":
        driver, _ = driver_of(platform)
        return outcomes(plan_checks(driver))
    if group == "convolutions":
        return convolution_outcomes(platform)
    if group == "graphs":
        return outcomes(graph_checks(Sides.of(platform)))
    if group == "faults":
        return outcomes(fault_checks(Sides.of(platform)))
    if group == "cancel":
        return outcomes(cancel_checks(Sides.of(platform)))
    if group == "conformance":
        become_conformance(platform)
    return outcomes(GROUPS[group](Sides.of(platform)))
