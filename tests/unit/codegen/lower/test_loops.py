import numpy as np

from tests.unit.codegen.compiled import assert_same
from xla_client import ops


def test_a_chain_of_elementwise_operations() -> None:
    x = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    assert_same(lambda a: ops.max(a * 2.0 + 1.0, a), x)
