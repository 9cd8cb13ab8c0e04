"""Transforms in assembly do what those in LLVM's language do."""

import ctypes
import functools
from fractions import Fraction

import numpy as np
import pytest

from tests.processors import HOST, MACHINES, assembles
from tests.unit.codegen.assembled import assembly_of, code_of, object_of
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.routines.contraction import assembly_transforms
from xla_server.codegen.routines.contraction.assembly_tiles import has_assembly
from xla_server.codegen.routines.contraction.winograd_transforms import matrices, transform_text

INPUT, KERNEL, RESULT = matrices()


@pytest.mark.skipif(not has_assembly(HOST), reason="a processor without 32 registers of 64 bytes")
@pytest.mark.parametrize(
    ("matrix", "count", "is_partial", "looks"),
    [
        (INPUT, 16, False, False),
        (INPUT, 41, False, False),
        (KERNEL, 5, True, False),
        (KERNEL, 300, True, False),
        (RESULT, 33, False, True),
    ],
)
@pytest.mark.parametrize("strange", [0.0, np.inf, np.nan])
def test_they_are_the_same(matrix, count, is_partial, looks, strange) -> None:
    high, wide = len(matrix), len(matrix[0])
    source = np.random.default_rng(5).standard_normal((wide, wide + 1, count)).astype(np.float32)
    source[1, 2, count - 1] = strange
    texts = {
        Effort.UNOPTIMISED: assembly_transforms.transform,
        Effort.WRITTEN: functools.partial(transform_text, machine=HOST),
    }
    results, found = [], []
    for effort, text in texts.items():
        loader = Loader(HOST)
        module = ModuleText(text("transform", matrix=matrix, is_partial=is_partial, looks=looks))
        address = loader.load(object_of_module(module, HOST, effort), "transform")
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(address)
        result = np.full((high, high, count + 1), 7, np.float32)
        down, across, _ = source.strides
        to_down, to_across, _ = result.strides
        given = (source.ctypes.data, down, across, result.ctypes.data, to_down, to_across, count)
        answer = function(*given)
        found.append(answer if looks else 0)
        results.append(result)
    np.testing.assert_array_equal(*results)
    assert found == [int(looks and strange != 0)] * 2
    assert (results[0][:, :, count] == 7).all()
    factors = np.array([[float(factor) for factor in row] for row in matrix])
    exact = np.einsum("ia,abc,jb->ijc", factors, source[:, :wide, :-1].astype(float), factors)
    np.testing.assert_allclose(results[0][:, :, : count - 1], exact, atol=2e-4)


@assembles
@pytest.mark.parametrize(
    ("matrix", "is_partial", "looks"),
    [(INPUT, False, False), (KERNEL, True, False), (RESULT, False, True)],
)
def test_they_assemble_on_hosts_that_do_not_run_them(matrix, is_partial, looks) -> None:
    machine = MACHINES["avx512"]
    text = assembly_transforms.transform("transform", matrix, is_partial=is_partial, looks=looks)
    lines = assembly_of(text, machine, Effort.UNOPTIMISED).splitlines()
    assert [line for line in lines if line.strip().startswith("vmovups") and "zmm" in line]
    assert any("%k1" in line and "zmm" in line for line in lines) == is_partial
    assert len(code_of(object_of(text, machine, Effort.UNOPTIMISED))) > 2 * len(lines)


def test_matrices_of_many_numbers_do_not_fit() -> None:
    assert assembly_transforms.fits(INPUT)
    assert not assembly_transforms.fits(
        [[Fraction(n * 6 + m + 2) for m in range(6)] for n in range(6)]
    )
    assert not assembly_transforms.fits([[Fraction(1)] * 7])
