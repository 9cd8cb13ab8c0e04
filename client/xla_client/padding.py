"""Windows as callers write them: sequences per dimension, and padding by name."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from xla_client.builder import integers
from xla_contract.dimension_numbers import Window, WindowDimension
from xla_contract.errors import InvalidArgumentError, ShapeError

Padding: TypeAlias = Literal["same", "valid"]
"""valid: none. same: as much as gives ceil(size / stride) windows, the odd one behind."""


def make_window(
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
    reversal: Sequence[bool] | None = None,
) -> Window:
    """A window; what is left out is trivial. Raises ShapeError for lists of different lengths."""
    rank = len(sizes)
    for name, given in (
        ("window_strides", strides),
        ("padding", padding),
        ("base_dilations", base_dilations),
        ("window_dilations", window_dilations),
        ("window_reversal", reversal),
    ):
        if given is not None and len(given) != rank:
            raise ShapeError(
                f"{name} must have one entry per window dimension, got {len(given)} for "
                f"{rank} dimensions"
            )
    ones = (1,) * rank
    return Window(
        tuple(
            WindowDimension(size, stride, int(low), int(high), inner, base, bool(backwards))
            for size, stride, (low, high), inner, base, backwards in zip(
                integers(sizes),
                ones if strides is None else integers(strides),
                padding if padding is not None else ((0, 0),) * rank,
                ones if window_dilations is None else integers(window_dilations),
                ones if base_dilations is None else integers(base_dilations),
                reversal if reversal is not None else (False,) * rank,
                strict=True,
            )
        )
    )


def pairs_of(
    padding: Padding, base: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Padding by name as (low, high) per dimension of the base."""
    if not len(base) == len(sizes) == len(strides):
        raise ShapeError(
            "a window must have one size and one stride per dimension, got "
            f"{len(sizes)} sizes and {len(strides)} strides for {len(base)} dimensions"
        )
    if padding == "valid":
        return ((0, 0),) * len(base)
    if padding != "same":
        raise InvalidArgumentError(
            f"padding must be 'same' or 'valid', got {padding!r}",
            hint="amounts are given to the ..._with_general_padding functions",
        )
    pairs = []
    for extent, size, stride in zip(base, sizes, strides, strict=True):
        windows = -(-extent // max(stride, 1))
        total = max((windows - 1) * stride + size - extent, 0)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)
