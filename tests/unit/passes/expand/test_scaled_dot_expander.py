"""Scaled dots on the cpu platform, where they are multiplications and a dot."""

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.compiled import both
from tests.unit.passes.passing import opcodes, passed, rewritten
from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape
from xla_server.ir.importer import import_module
from xla_server.passes.expand.scaled_dot_expander import ScaledDotExpander

PLAIN = DotDimensionNumbers((1,), (0,))
BATCHED = DotDimensionNumbers((2,), (2,), (0,), (0,))


def drawn(kind: E, *sizes: int) -> Any:
    numbers = np.random.default_rng(len(sizes) + sizes[-1]).normal(size=sizes)
    return (2 ** np.round(numbers) if kind is E.F8E8M0FNU else numbers).astype(kind.dtype)


@pytest.mark.parametrize("result", [E.F32, E.BF16], ids=lambda kind: kind.text)
@pytest.mark.parametrize(
    "arrays",
    [
        (
            drawn(E.F8E4M3FN, 4, 64),
            drawn(E.F8E5M2, 64, 8),
            (E.F8E8M0FNU, 4, 2),
            (E.F8E8M0FNU, 2, 8),
        ),
        (drawn(E.BF16, 4, 64), drawn(E.F32, 64, 8), None, (E.F16, 64, 4)),
        (drawn(E.F4E2M1FN, 4, 6), drawn(E.BF16, 6, 8), (E.F8E4M3FN, 2, 6), None),
    ],
)
def test_matrices(arrays: Any, result: E) -> None:
    assert_close(PLAIN, result, *arrays)


def test_batches() -> None:
    lhs, rhs = drawn(E.F8E4M3FN, 2, 4, 32), drawn(E.F8E4M3FN, 2, 8, 32)
    assert_close(BATCHED, E.F32, lhs, rhs, (E.F8E8M0FNU, 2, 4, 1), (E.F8E8M0FNU, 1, 8, 2))


def test_the_expansion() -> None:
    builder = Builder("m")
    arrays = [drawn(E.BF16, 4, 64), drawn(E.F32, 64, 8), drawn(E.F16, 64, 4)]
    lhs, rhs, scale = (
        builder.parameter(n, Shape.array(E.from_dtype(array.dtype), array.shape))
        for n, array in enumerate(arrays)
    )
    root = ops.scaled_dot(
        lhs, rhs, None, scale, dimension_numbers=PLAIN, preferred_element_type=E.F32
    )
    before = import_module(builder.build(root).proto)
    after = rewritten(before, ScaledDotExpander(), arguments=arrays, relative=1e-5)
    found = opcodes(after)
    assert "scaled-dot" not in found
    assert found["dot"] == 1
    passed(after, ScaledDotExpander(), fires=False)


def assert_close(numbers: Any, result: E, lhs: Any, rhs: Any, *scales: Any) -> None:
    given = [scale and drawn(*scale) for scale in scales]

    def function(lhs: Op, rhs: Op, *present: Op) -> Op:
        rest = iter(present)
        scales = [None if scale is None else next(rest) for scale in given]
        return ops.scaled_dot(
            lhs, rhs, *scales, dimension_numbers=numbers, preferred_element_type=result
        )

    arrays = [lhs, rhs, *(scale for scale in given if scale is not None)]
    ((ours, expected),) = both(function, *arrays)
    assert ours.dtype == expected.dtype == result.dtype
    bound = 1e-5 if result is E.F32 else 2**-7
    np.testing.assert_allclose(
        ours.astype(np.float32), expected.astype(np.float32), rtol=bound, atol=bound
    )
