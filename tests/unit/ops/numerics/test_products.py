from typing import Any

import numpy as np
import pytest

from xla_contract.errors import CancelledError
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.checkpoints import cancellable
from xla_server.ir.text.parser import parse_module
from xla_server.ops.numerics import products
from xla_server.ops.numerics.products import matrix_product

S64 = np.dtype(np.int64)


@pytest.mark.parametrize("step", [1, 6, 50, 130, 1 << 20])
@pytest.mark.parametrize("sizes", [(3, 5, 4, 2), (1, 9, 2, 7), (6, 1, 3, 1), (2, 0, 3, 4)])
def test_a_product_in_pieces_is_the_product(
    monkeypatch: pytest.MonkeyPatch, step: int, sizes: tuple[int, int, int, int]
) -> None:
    monkeypatch.setattr(products, "_INTEGER_STEPS", step)
    count, rows, depth, columns = sizes
    draw = np.random.default_rng(step)
    left = draw.integers(-(2**62), 2**62, (count, rows, depth))
    right = draw.integers(-(2**62), 2**62, (count, depth, columns))
    checks: list[int] = []
    with cancellable(lambda: checks.append(1)):
        product = matrix_product(left, right)
    np.testing.assert_array_equal(product, np.matmul(left, right))
    assert product.dtype == S64
    assert bool(checks) == (count * rows > max(1, step // (depth * columns)))


class Impatient(Cancellation):
    """Is cancelled at the third look at it."""

    looks = 0

    def checkpoint(self) -> None:
        self.looks += 1
        if self.looks > 2:
            self.cancel(CancelledError("enough"))
        super().checkpoint()


@pytest.mark.parametrize(
    ("root", "sizes"),
    [
        ("dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", [(8, 4), (4, 8)]),
        ("convolution(x, y), window={size=1}, dim_labels=bf0_io0->bf0", [(1, 4, 8), (4, 8, 1)]),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "s64"])
def test_a_large_product_ends_soon_after_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, root: str, sizes: list[tuple[int, ...]], kind: str
) -> None:
    for name in ("_FLOAT_STEPS", "_INTEGER_STEPS"):
        monkeypatch.setattr(products, name, 1)
    x, y = (f"{kind}[{','.join(map(str, size))}]" for size in sizes)
    module = parse_module(
        f"ENTRY e {{ x = {x} parameter(0) y = {y} parameter(1) ROOT r = {root} }}"
    )
    arguments: list[Any] = [np.ones(size, {"f32": "f4", "s64": "i8"}[kind]) for size in sizes]
    cancellation = Impatient()
    options = ExecuteOptions(cancellation=cancellation)
    with pytest.raises(CancelledError, match="enough"):
        evaluate(module, arguments, options=options)
    assert cancellation.looks == 3
