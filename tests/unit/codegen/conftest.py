from collections.abc import Iterator

import pytest

from tests.processors import WIDTHS, compiled_for


@pytest.fixture(params=WIDTHS)
def processor(request: pytest.FixtureRequest) -> Iterator[str]:
    """A processor of each size of tiles, compiled for during the test."""
    with compiled_for(request.param):
        yield request.param
