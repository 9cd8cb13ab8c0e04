"""The slices against the definition of a window, element by element."""

import itertools

import numpy as np

from xla_contract.types.dimension_numbers import Window, WindowDimension
from xla_server.ops.numerics.windows import reads


def by_definition(window: WindowDimension, base: int, outputs: int) -> set[tuple[int, int, int]]:
    found = set()
    for element, output in itertools.product(range(window.size), range(outputs)):
        position = output * window.stride + element * window.window_dilation - window.padding_low
        if position % window.base_dilation == 0 and 0 <= position // window.base_dilation < base:
            found.add((output, position // window.base_dilation, element))
    return found


def test_slices_pair_what_the_definition_pairs() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        size, stride, window_dilation, base_dilation = (int(n) for n in random.integers(1, 5, 4))
        low, high = (int(n) for n in random.integers(-2, 4, 2))
        base = int(random.integers(0, 7))
        dimension = WindowDimension(size, stride, low, high, window_dilation, base_dilation)
        outputs = dimension.output_size(base)
        pairs = set()
        for (at_outputs,), (at_base,) in reads(Window((dimension,)), (base,), (outputs,)):
            outs, ins = range(outputs)[at_outputs], range(base)[at_base]
            pairs |= set(zip(outs, ins, strict=True))
        assert pairs == {pair[:2] for pair in by_definition(dimension, base, outputs)}, dimension


def test_window_elements_outside_the_base_cost_nothing() -> None:
    huge = WindowDimension(2**40, padding_low=2**40 - 1)
    assert len(list(reads(Window((huge,)), (3,), (3,)))) == 3
