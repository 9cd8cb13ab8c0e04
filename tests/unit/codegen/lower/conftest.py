from collections.abc import Callable
from typing import Any

import pytest

from tests.cuda_twin import codes
from tests.unit.codegen import compiled


@pytest.fixture(params=[compiled.assert_same, codes.assert_same], ids=["cpu", "cuda twin"])
def assert_same(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Asserts that a program has the interpreter's bits, on the host and by kernels for a GPU."""
    function: Any = request.param
    return function
