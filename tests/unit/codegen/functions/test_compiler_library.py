"""Functions of the compiler's own library, as LLVM calls them."""

import ctypes

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.processors import HOST, MACHINES, assembles, runs
from tests.unit.codegen.assembled import object_of
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.functions.compiler_library import HALF_OF_F64
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

NARROWING = """
define void @narrowing(ptr %from, ptr %to) {
  %wide = load double, ptr %from
  %narrow = fptrunc double %wide to half
  store half %narrow, ptr %to
  ret void
}
"""


@assembles
@pytest.mark.parametrize("machine", [HOST, MACHINES["avx2"], MACHINES["sse2"]])
def test_f64_is_rounded_to_f16_once(machine: Machine) -> None:
    if not runs(machine):
        pytest.skip("the host runs no code of this processor")
    code = object_of(NARROWING, machine)
    assert undefined_symbols(code) == {HALF_OF_F64}
    base = Loader(machine)
    base.load(vocabulary(machine).shared[HALF_OF_F64].object_code(machine), HALF_OF_F64)
    loader = Loader(machine, base)
    found = loader.load_all({"narrowing": code})
    narrow = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(found["narrowing"])
    tie = 1 + 2.0**-11
    x = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, -tie, 3e-8, -7e4, np.inf, np.nan, -0.0])
    result = np.empty(x.size, np.float16)
    for number in range(x.size):
        narrow(x[number:].ctypes.data, result[number:].ctypes.data)
    with np.errstate(over="ignore"):
        assert_equal_bits(result, x.astype(np.float16))
