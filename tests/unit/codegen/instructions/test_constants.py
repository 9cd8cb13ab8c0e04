"""Constants keep the bits that they are written with."""

import numpy as np

from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.memory import COMPUTED


def test_there_is_one_constructor_for_each_type() -> None:
    assert CONSTANTS.keys() == COMPUTED.keys()


def test_floats_are_made_of_their_bits() -> None:
    assert CONSTANTS["f32"](0x7FC00001).view(np.uint32) == 0x7FC00001
    assert CONSTANTS["f64"](1 << 63).view(np.uint64) == 1 << 63
    assert CONSTANTS["c64"](0x3F800000, 0x80000000) == complex(1, -0.0)
    assert np.signbit(CONSTANTS["c64"](0x3F800000, 0x80000000).imag)
    assert CONSTANTS["c128"](0x3FF0 << 48, 0x4000 << 48) == 1 + 2j
