"""Convolutions by a library on the platform `cuda`, on twins that have it or refuse a part."""

import itertools

import pytest

from tests.cuda.checks import convolution_checks
from tests.cuda.checks.convolution_checks import ORDERS
from tests.cuda.checks.outcomes import Status
from tests.cuda_twin.device.platform import shared_platform, twin_platform
from tests.cuda_twin.programs import TARGET
from xla_server.backends.cuda.program import CudaProgram
from xla_server.backends.cuda.refusals import MAX_REFUSED_PLANS, RefusedPlans
from xla_server.target.gpu.gpu_capability import GpuCapability

LAYER = (4, 16, 32, 12), 3, 1
"""Large enough for a library."""


def test_a_library_that_refuses_much_is_left_out() -> None:
    refusals = RefusedPlans(TARGET, has_convolutions=True)
    plans = list(itertools.islice(convolution_checks.convolution_plans(), MAX_REFUSED_PLANS + 1))
    for plan in plans[:MAX_REFUSED_PLANS]:
        refusals.add({plan: "no engine"})
    assert refusals.target.capability == GpuCapability(
        has_convolutions=True,
        refused=frozenset(plan.convolution for plan in plans[:MAX_REFUSED_PLANS]),
    )
    refusals.add({plans[MAX_REFUSED_PLANS]: "no engine"})
    assert refusals.target.capability == GpuCapability()
    assert len(list(refusals.lines())) == 2 + MAX_REFUSED_PLANS


@pytest.mark.parametrize(
    ("device", "calls", "refused"), [("TwinDriver", 3, 0), ("RefusingTwin", 2, 1)]
)
def test_what_a_library_refuses_is_compiled_without_it(
    device: str, calls: int, refused: int
) -> None:
    platform = twin_platform(device=device, library_convolutions=True)
    try:
        module, arguments = convolution_checks._layer(LAYER, ORDERS[0], is_gradient=True)
        given = "a layer", shared_platform(), platform, module, arguments
        assert convolution_checks._compared(*given).status is Status.OK
        loaded = platform.load
        programs: list[CudaProgram] = []
        platform.load = lambda made: programs.append(loaded(made)) or programs[-1]  # type: ignore[method-assign, func-returns-value]
        platform.compile(module, module.entry_program_shape)
    finally:
        platform.close()
    # The library is not called again for what it refused once.
    (program,) = programs
    places = platform.dump_files(program)["places.txt"]
    assert isinstance(places, str)
    assert places.count(" library ") >= calls
    reported = [line for line in places.splitlines() if line.endswith(": no engine")]
    assert len(reported) == refused
    assert ("refused by libraries" in places) == bool(refused)
