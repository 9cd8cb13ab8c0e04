"""Steps of Fourier transforms over blocks, other than passes.

Operands are int64. Addresses `real` and `imaginary` are those of a block's parts, which may be
exchanged; tables have complex numbers.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from xla_server.codegen.compiler.llvm_text import TextLoop
from xla_server.codegen.compiler.shared_functions import by_name
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters, parameters_of
from xla_server.codegen.routines.fourier.fourier_passes import MOVE_COST
from xla_server.codegen.routines.fourier.fourier_text import (
    WIDTH,
    Complex,
    FourierText,
    fourier_function,
)

_TWO_SIDES = *parameters(Unit.UPDATE, "real", "imaginary"), *parameters(Unit.COUNT, "count")
_HALVES = *_TWO_SIDES, *parameters(Unit.READ, "table")
_PARTS = ("low", "low_swapped", "high", "high_swapped")
_CHIRP = parameters_of(
    source=Unit.READ,
    source_step=Unit.OFFSET,
    target=Unit.WRITE,
    target_step=Unit.OFFSET,
    count=Unit.COUNT,
    table=Unit.READ,
    padded=Unit.COUNT,
)
_TWIDDLE = parameters_of(
    block=Unit.UPDATE, count=Unit.COUNT, fine=Unit.READ, coarse=Unit.READ, rows=Unit.COUNT
)
_GATHER = parameters_of(source=Unit.READ, target=Unit.WRITE, count=Unit.COUNT, offsets=Unit.READ)
_MIX = (
    *parameters(Unit.UPDATE, *_PARTS),
    *parameters(Unit.COUNT, "count"),
    *parameters(Unit.READ, "table"),
    *parameters(Unit.NUMBER, "scale"),
)
_SUM = *parameters(Unit.READ, "one", "other"), *parameters(Unit.WRITE, "target")


def block_routine(step: str, kind: str) -> Routine:
    """Return the routine of a step, for blocks of a real type."""
    return Routine(f"fourier_{step}_{kind}", _STEPS[step][0], cost=_cost)


def _cost(n: Mapping[str, int]) -> float:
    """Return the vector instructions of a step on `count` elements, or on one without it."""
    return MOVE_COST * n.get("count", 1)


def _halves(f: FourierText, *, is_inverse: bool) -> None:
    """Write the step between a real transform and a complex one of half its length.

    It works within its buffer.

    With half = `count`, elements k and half - k become s * (x[k] + conj(x[half - k])) + t[k] *
    (x[k] - conj(x[half - k])), and the conjugate of the difference. The first number of the table
    is s, the others are t. An inverse step takes elements 0 and half, which are real, to element
    0; a forward step does the opposite.
    """
    ends = f.let(f"mul i64 %count, {f.pair}")
    real, imaginary = f.pointer("%real"), f.pointer("%imaginary")
    last_real, last_imaginary = (
        f.let(f"getelementptr i8, ptr {pointer}, i64 {ends}") for pointer in (real, imaginary)
    )
    one, other = f.load(real), f.load(last_real if is_inverse else imaginary)
    total, difference = f.add(one, other), f.sub(one, other)
    f.store(total, real)
    if is_inverse:
        f.store(difference, imaginary)
    else:
        f.store(difference, last_real)
        for pointer in (imaginary, last_imaginary):
            f.store("zeroinitializer", pointer)
    table = f.pointer("%table")
    scale = f.broadcast(table)
    middle = f.plus(f.let("lshr i64 %count, 1"), "1")
    with f.when(f.let("icmp sgt i64 %count, 1")):
        pointers = (real, imaginary, last_real, last_imaginary)
        steps = (f.pair, f.pair, -f.pair, -f.pair)
        begin = [
            ("ptr", f.behind(pointer, step)) for pointer, step in zip(pointers, steps, strict=True)
        ]
        k = TextLoop(f, "1", middle, 1, [*begin, ("ptr", f.behind(table, 2 * f.width))])
        *at, root = k.values
        low, high = (f.load(at[0]), f.load(at[1])), (f.load(at[2]), f.load(at[3]))
        _mixed(f, low, high, scale, f.broadcast_pair(root), at)
        k.end(
            [
                *(f.behind(pointer, step) for pointer, step in zip(at, steps, strict=True)),
                f.behind(root, 2 * f.width),
            ]
        )


def _mix(f: FourierText) -> None:
    """The step of `from_half` and `to_half` for elements k and half - k in blocks of their own.

    Lanes are neighbouring k, and so are the table's. The addresses of a block's parts are given,
    real before imaginary; `scale` are the bits of an f64.
    """
    scale = f.factor("%scale")
    pointers = [("ptr", f.pointer(f"%{name}")) for name in (*_PARTS, "table")]
    k = TextLoop(f, "0", "%count", 1, pointers)
    *at, root = k.values
    low, high = (f.load(at[0]), f.load(at[1])), (f.load(at[2]), f.load(at[3]))
    _mixed(f, low, high, scale, f.load_pair(root), at)
    k.end([f.behind(pointer, f.pair) for pointer in k.values])


def _mixed(
    f: FourierText, low: Complex, high: Complex, scale: str, root: Complex, at: Sequence[str]
) -> None:
    """Store scale * (low + conj(high)) + root * (low - conj(high)), and the other's conjugate."""
    total = f.add(low[0], high[0]), f.sub(low[1], high[1])
    difference = f.sub(low[0], high[0]), f.add(low[1], high[1])
    turned = f.complex_mul(difference, root)
    scaled = f.mul(total[0], scale), f.mul(total[1], scale)
    mirrored = f.sub(scaled[0], turned[0]), f.sub(turned[1], scaled[1])
    for value, pointer in zip((*f.complex_add(scaled, turned), *mirrored), at, strict=True):
        f.store(value, pointer)


def _mirror(f: FourierText) -> None:
    """Complete the spectrum of real numbers, of odd length n: element n - k is conj(x[k])."""
    real, imaginary = f.pointer("%real"), f.pointer("%imaginary")
    f.store("zeroinitializer", imaginary)
    half = f.let("lshr i64 %count, 1")
    with f.when(f.let("icmp sgt i64 %count, 1")):
        end = f.let(f"mul i64 %count, {f.pair}")
        pointers = [("ptr", f.behind(pointer, f.pair)) for pointer in (real, imaginary)]
        ends = [
            ("ptr", f.behind(f.let(f"getelementptr i8, ptr {pointer}, i64 {end}"), -f.pair))
            for pointer in (real, imaginary)
        ]
        k = TextLoop(f, "0", half, 1, [*pointers, *ends])
        at = k.values
        f.store(f.load(at[0]), at[2])
        f.store(f.neg(f.load(at[1])), at[3])
        k.end([f.behind(pointer, f.pair * (1 if n < 2 else -1)) for n, pointer in enumerate(at)])


def _twiddle(f: FourierText, *, is_broadcast: bool) -> None:
    """Multiply element j * rows + k by coarse[j] * fine[k], k < rows, overwriting it.

    The tables have a number for each lane, or one for all.
    """
    step = 2 * f.width if is_broadcast else f.pair
    load: Callable[[str], Complex] = f.broadcast_pair if is_broadcast else f.load_pair
    begin = [("ptr", f.pointer("%block")), ("ptr", f.pointer("%coarse"))]
    fine = f.pointer("%fine")
    outer = TextLoop(f, "0", "%count", "%rows", begin)
    source, coarse = outer.values
    root = load(coarse)
    rest = f.smaller(f.minus("%count", outer.number), "%rows")
    inner = TextLoop(f, "0", rest, 1, [("ptr", source), ("ptr", fine)])
    here, other = inner.values
    factor = f.complex_mul(load(other), root)
    f.store_pair(f.complex_mul(f.load_pair(here), factor), here)
    next_pointer = f.behind(here, f.pair)
    inner.end([next_pointer, f.behind(other, step)])
    outer.end([next_pointer, f.behind(coarse, step)])


def _chirp(f: FourierText, *, swapped: str) -> None:
    """Multiply elements by a table's, and add zeros up to `padded` elements.

    `swapped` says whose real and imaginary parts are exchanged: the operand's, the result's, or
    neither's.
    """
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "target", "table")]
    k = TextLoop(f, "0", "%count", 1, begin)
    source, target, table = k.values
    value = f.load_pair(source)
    value = (value[1], value[0]) if swapped == "operand" else value
    product = f.complex_mul(value, f.broadcast_pair(table))
    f.store_pair((product[1], product[0]) if swapped == "result" else product, target)
    next_pointer = f.behind(target, "%target_step")
    k.end([f.behind(source, "%source_step"), next_pointer, f.behind(table, 2 * f.width)])
    with f.when(f.let("icmp slt i64 %count, %padded")):
        rest = TextLoop(f, "%count", "%padded", 1, [("ptr", next_pointer)])
        (pointer,) = rest.values
        f.store_pair(("zeroinitializer", "zeroinitializer"), pointer)
        rest.end([f.behind(pointer, "%target_step")])


def _gather(f: FourierText) -> None:
    """Bring elements at byte offsets into the order of a table of int64."""
    source = f.pointer("%source")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("target", "offsets")]
    k = TextLoop(f, "0", "%count", 1, begin)
    target, offsets = k.values
    f.store_pair(f.load_pair(f.behind(source, f.let(f"load i64, ptr {offsets}"))), target)
    k.end([f.behind(target, f.pair), f.behind(offsets, 8)])


def _scatter(f: FourierText) -> None:
    """Store elements, real and imaginary parts exchanged, times a table's at byte offsets."""
    target = f.pointer("%target")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "offsets", "table")]
    k = TextLoop(f, "0", "%count", 1, begin)
    source, offsets, table = k.values
    real, imaginary = f.load_pair(source)
    product = f.complex_mul((imaginary, real), f.broadcast_pair(table))
    f.store_pair(product, f.behind(target, f.let(f"load i64, ptr {offsets}")))
    k.end([f.behind(source, f.pair), f.behind(offsets, 8), f.behind(table, 2 * f.width)])


def _sum(f: FourierText, *, is_swapped: bool) -> None:
    """Add two elements; of a swapped one the first has its parts exchanged."""
    one, other = (f.load_pair(f.pointer(f"%{name}")) for name in ("one", "other"))
    one = (one[1], one[0]) if is_swapped else one
    f.store_pair(f.complex_add(one, other), f.pointer("%target"))


_STEPS: Mapping[str, tuple[tuple[Parameter, ...], Callable[[FourierText], None]]] = {
    "to_half": (_HALVES, functools.partial(_halves, is_inverse=True)),
    "from_half": (_HALVES, functools.partial(_halves, is_inverse=False)),
    "mix": (_MIX, _mix),
    "gather": (_GATHER, _gather),
    "scatter": ((*_GATHER, *parameters(Unit.READ, "table")), _scatter),
    "sum": (_SUM, functools.partial(_sum, is_swapped=False)),
    "sum_swapped": (_SUM, functools.partial(_sum, is_swapped=True)),
    "mirror": (_TWO_SIDES, _mirror),
    "twiddle_lanes": (_TWIDDLE, functools.partial(_twiddle, is_broadcast=False)),
    "twiddle": (_TWIDDLE, functools.partial(_twiddle, is_broadcast=True)),
    "chirp": (_CHIRP, functools.partial(_chirp, swapped="")),
    "chirp_to": (_CHIRP, functools.partial(_chirp, swapped="result")),
    "chirp_from": (_CHIRP, functools.partial(_chirp, swapped="operand")),
}
"""The parameters of each step, and the writer of its function."""

FOURIER_BLOCKS = by_name(
    fourier_function(block_routine(step, kind), code, kind)
    for step, (_, code) in _STEPS.items()
    for kind in WIDTH
)
"""Every function of this module by its name in kernels."""
