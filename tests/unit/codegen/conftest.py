import pytest

from tests.processors import MACHINES, WIDTHS
from xla_server.target.machine import Machine


@pytest.fixture(params=WIDTHS)
def machine(request: pytest.FixtureRequest) -> Machine:
    """A processor of each size of tiles."""
    return MACHINES[request.param]
