"""The instruction for random words against the generator that it is the instruction of."""

import numpy as np

from tests.unit.codegen.instructions.calls import called
from xla_server.ops.numerics import counter_generators


def test_three_fry_gives_the_words_of_the_generator() -> None:
    key, count = 0x0123_4567_89AB_CDEF, 16
    counters = np.arange(2**40, 2**40 + count, dtype=np.uint64)
    found = called("three_fry", np.uint64, np.full(count, key, np.uint64), counters)
    words = counter_generators.three_fry(key, 2**40, count, lambda: None)
    assert found.astype("<u8").tobytes() == words.astype("<u4").tobytes()
