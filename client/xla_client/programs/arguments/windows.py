"""Windows as callers write them: sequences per dimension, and padding by name."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from xla_client.coercion.numbers import described, integers, pairs, refusal
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.dimension_numbers import Window, WindowDimension, dilated

Padding: TypeAlias = Literal["same", "valid", "SAME", "VALID"]
"""valid: none. same: as much as gives ceil(size / stride) windows, the odd one behind."""

PaddingLike: TypeAlias = Padding | Sequence[tuple[int, int]]
"""A name, or (low, high) per dimension."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]


def padding_name(parameter: str, value: Any) -> Padding:
    """Return "same" or "valid", of a name in any case.

    Raises:
        ArgumentTypeError: The value is no text.
        InvalidArgumentError: The text is neither name.
    """
    if not isinstance(value, str):
        raise refusal(
            parameter,
            "'same' or 'valid'",
            value,
            "amounts are given to the ..._with_general_padding functions",
        )
    if value.lower() in ("same", "valid"):
        return "same" if value.lower() == "same" else "valid"
    raise InvalidArgumentError(
        f"{parameter} must be 'same' or 'valid', got {described(value)}",
        hint="amounts are given to the ..._with_general_padding functions",
    )


def padding_name_or_pairs(parameter: str, value: Any) -> Padding | Pairs:
    """Return "same" or "valid", or (low, high) per dimension; raises as `padding_name`."""
    if isinstance(value, str):
        return padding_name(parameter, value)
    try:
        return pairs(parameter, value)
    except InvalidArgumentError:
        raise refusal(parameter, "'same', 'valid' or (low, high) per dimension", value) from None


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
) -> Pairs:
    """Padding by name as (low, high) per dimension of the base."""
    if not len(base) == len(sizes) == len(strides):
        raise ShapeError(
            "a window must have one size and one stride per dimension, got "
            f"{len(sizes)} sizes and {len(strides)} strides for {len(base)} dimensions"
        )
    if padding_name("padding", padding) == "valid":
        return ((0, 0),) * len(base)
    amounts = []
    for extent, size, stride in zip(base, sizes, strides, strict=True):
        windows = -(-extent // max(stride, 1))
        total = max((windows - 1) * stride + size - extent, 0)
        amounts.append((total // 2, total - total // 2))
    return tuple(amounts)


def amounts_of(
    padding: PaddingLike | None,
    base: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> Pairs | None:
    """Padding in either form as (low, high) per dimension; None stays None."""
    if padding is None or not isinstance(padding, str):
        return None if padding is None else pairs("padding", padding)
    ones = (1,) * len(sizes)
    return pairs_of(
        padding,
        _dilated(base, base_dilations),
        _dilated(sizes, window_dilations),
        ones if strides is None else strides,
    )


def _dilated(sizes: Sequence[int], dilations: Sequence[int] | None) -> Sequence[int]:
    if dilations is None or len(dilations) != len(sizes):
        return sizes  # Other lengths are refused when the window is made.
    return [dilated(size, by) for size, by in zip(sizes, dilations, strict=True)]
