"""The product of matrices that kernels ask BLAS for."""

import ctypes
import itertools

import numpy as np
import pytest

from tests.processors import HOST
from tests.sources import source_module
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.namespace import vocabulary

FORMS = list(itertools.product((False, True), repeat=3))


@pytest.mark.parametrize(("turns_a", "turns_b", "adds"), FORMS)
def test_operands_may_be_transposed_and_results_added_to(
    turns_a: bool, turns_b: bool, adds: bool
) -> None:
    m, n, k = 2, 3, 4
    a, b = np.arange(8.0).reshape(m, k), np.arange(12.0).reshape(k, n)
    c = np.full((m, n), 100.0)
    stored = [
        np.ascontiguousarray(x.T if turned else x) for x, turned in ((a, turns_a), (b, turns_b))
    ]
    pitches = [x.shape[1] for x in stored]
    source = (
        "def kernel(buffers, start, stop):\n"
        "    a, b, c = peek_i64(buffers, 0), peek_i64(buffers, 1), peek_i64(buffers, 2)\n"
        f"    product_into_f64(a, {pitches[0]}, {turns_a}, b, {pitches[1]}, {turns_b}, c, {n},"
        f" {m}, {n}, {k}, {adds})\n"
    )
    names = dict(vocabulary(HOST).names)
    exec(source, names)
    loader = Loader(HOST)
    address = loader.load(object_of_module(source_module(source, names), HOST), "kernel")
    table = np.array([x.ctypes.data for x in (*stored, c)], np.int64)
    unused = np.zeros(2, np.int64)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(address)
    call(unused.ctypes.data, unused.ctypes.data + 8, table.ctypes.data, 0, 1)
    np.testing.assert_array_equal(c, a @ b + (100 if adds else 0))
