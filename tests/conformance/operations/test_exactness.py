"""Where XLA's CPU backend has an answer of its own, ours is the same to the bit."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.conformance.sweep.draws.depth import FULL
from tests.conformance.sweep.draws.subnormal import agreed
from tests.corpus.hlo_text import parse_hlo
from xla_contract.types.element_type import ElementType as E

INTEGERS = (E.S2, E.U2, E.S4, E.U4, E.S8, E.U8, E.S16, E.U16, E.S32, E.U32, E.S64, E.U64)
SMALL = tuple(
    kind for kind in E if kind.is_floating and kind.bit_width in (4, 8)
)  # XLA's CPU compiler fails on 6 bits.
FLOATS = (*SMALL, E.F16, E.BF16, E.F32, E.F64)
REAL = (E.PRED, *INTEGERS, *FLOATS)
EVEN_MORE = (*REAL, E.C64, E.C128)


def values(kind: E) -> Any:
    """All numbers of a small type; of others those near powers of two and arbitrary bits."""
    if kind is E.PRED:
        return np.array([False, True])
    if kind.is_integer:
        low = -(2 ** (kind.bit_width - 1)) if kind.is_signed_integer else 0
        high = low + 2**kind.bit_width - 1
        near = {
            sign * 2**power + step
            for power in range(kind.bit_width + 1)
            for sign in (1, -1)
            for step in (-3, -1, 0, 1, 3)
        }
        inside = sorted(number for number in near if low <= number <= high)
        return np.array(inside, np.int64 if low else np.uint64).astype(kind.dtype)
    if kind.bit_width <= 8:
        return np.arange(2**kind.bit_width, dtype=np.uint8).view(kind.dtype)
    storage = np.dtype(f"u{kind.byte_width}")
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**kind.bit_width - 1, 999, np.uint64, endpoint=True).astype(storage)
    if kind.bit_width == 16:
        return np.arange(0, 2**16, 7, dtype=storage).view(kind.dtype)
    special = [
        0.0,
        np.inf,
        np.nan,
        65519,
        65520,
        464,
        2.0**31 - 1,
        2.0**64,
        0.5,
        1.5,
        1e-45,
        1e-310,
    ]
    powers = [2.0**power * part for power in range(-151, 128, 3) for part in (1, 1 + 2**-10, 1.75)]
    numbers = np.array([*special, *powers])
    with np.errstate(over="ignore"):
        near = np.concatenate([numbers, -numbers]).astype(kind.dtype)
    return np.concatenate([near, bits.view(kind.dtype)])


def assert_same(text: str, arguments: list[Any]) -> None:
    proto = parse_hlo(f"HloModule m\nENTRY main {{ {text} }}")
    (ours,), (theirs,) = evaluated(proto, arguments), run_on_xla(proto, arguments)
    assert_equal_bits(ours, theirs)


@pytest.mark.parametrize("source", REAL, ids=lambda kind: kind.text)
def test_convert(source: E) -> None:
    given = agreed(values(source))
    size = len(given)
    # In the slice every two real types are converted one way or the other.
    here = EVEN_MORE.index(source)
    targets = [
        kind
        for n, kind in enumerate(EVEN_MORE)
        if n != here and (FULL or kind.is_complex or (n + here + (n < here)) % 2 == 0)
    ]
    lines = [f"x = {source.text}[{size}] parameter(0)"]
    lines += [f"y.{n} = {kind.text}[{size}] convert(x)" for n, kind in enumerate(targets)]
    shapes = ", ".join(f"{kind.text}[{size}]" for kind in targets)
    names = ", ".join(f"y.{n}" for n in range(len(targets)))
    lines.append(f"ROOT all = ({shapes}) tuple({names})")
    proto = parse_hlo("HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}")
    results = evaluated(proto, [given]), run_on_xla(proto, [given])
    for target, ours, theirs in zip(targets, *results, strict=True):
        try:
            assert_equal_bits(agreed(ours), agreed(theirs))
        except AssertionError as error:
            raise AssertionError(f"{source.text} to {target.text}: {error}") from None


@pytest.mark.parametrize("kind", INTEGERS[2:], ids=lambda kind: kind.text)
def test_power(kind: E) -> None:
    numbers = values(kind)
    base, exponent = (side.ravel() for side in np.meshgrid(numbers, numbers))
    shape = f"{kind.text}[{len(base)}]"
    assert_same(
        f"b = {shape} parameter(0)\n e = {shape} parameter(1)\n ROOT r = {shape} power(b, e)",
        [base, exponent],
    )


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda kind: kind.text)
@pytest.mark.parametrize("opcode", ["popcnt", "count-leading-zeros"])
def test_counts_of_bits(opcode: str, kind: E) -> None:
    numbers = values(kind)
    shape = f"{kind.text}[{len(numbers)}]"
    assert_same(f"x = {shape} parameter(0)\n ROOT r = {shape} {opcode}(x)", [numbers])
