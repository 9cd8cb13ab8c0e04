import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.types.opcode import Opcode


def test_the_value_comes_through() -> None:
    x = np.arange(3, dtype=np.int8)
    started = result_of(Opcode.COPY_START, x)
    assert len(started) == 3
    np.testing.assert_array_equal(result_of(Opcode.COPY_DONE, started), x)
