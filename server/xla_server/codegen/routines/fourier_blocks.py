"""Steps of Fourier transforms over blocks, other than passes.

Operands are int64. Addresses `real` and `imaginary` are those of a block's parts, which may be
exchanged; tables have complex numbers.
"""

import functools
from collections.abc import Callable, Sequence

from xla_server.codegen.compiler.llvm_text import Loop
from xla_server.codegen.compiler.shared_functions import TextFunction
from xla_server.codegen.routines.fourier_text import Complex, FourierText
from xla_server.target.machine import Machine

_KINDS = ("f32", "f64")

_REAL_OPERANDS = ("real", "imaginary", "half", "table")


def _halves_text(symbol: str, machine: Machine, kind: str, *, is_inverse: bool) -> str:
    """The step between a real transform and a complex one of half its length, within its buffer.

    Elements k and half - k become s * (x[k] + conj(x[half - k])) + t[k] * (x[k] -
    conj(x[half - k])), and the conjugate of the difference, where s is the first number of the
    table and t what follows. An inverse one takes elements 0 and half, which are real, to
    element 0; the other way round else.
    """
    f = FourierText(symbol, _REAL_OPERANDS, machine, kind)
    ends = f.let(f"mul i64 %half, {f.pair}")
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
    middle = f.plus(f.let("lshr i64 %half, 1"), "1")
    after = f.when(f.let("icmp sgt i64 %half, 1"))
    pointers = (real, imaginary, last_real, last_imaginary)
    steps = (f.pair, f.pair, -f.pair, -f.pair)
    begin = [
        ("ptr", f.behind(pointer, step)) for pointer, step in zip(pointers, steps, strict=True)
    ]
    k = Loop(f, "1", middle, 1, [*begin, ("ptr", f.behind(table, 2 * f.width))])
    *at, root = k.values
    low, high = (f.load(at[0]), f.load(at[1])), (f.load(at[2]), f.load(at[3]))
    _mixed(f, low, high, scale, f.broadcast_pair(root), at)
    k.end(
        [
            *(f.behind(pointer, step) for pointer, step in zip(at, steps, strict=True)),
            f.behind(root, 2 * f.width),
        ]
    )
    f.end_when(after)
    return f.text()


_MIX_OPERANDS = ("low", "low_swapped", "high", "high_swapped", "count", "table", "scale")


def _mix_text(symbol: str, machine: Machine, kind: str) -> str:
    """The step of `from_half` and `to_half` for elements k and half - k in blocks of their own.

    Lanes are neighbouring k, and so are the table's. The addresses of a block's parts are given,
    real before imaginary; `scale` are the bits of an f64.
    """
    f = FourierText(symbol, _MIX_OPERANDS, machine, kind)
    scale = f.factor("%scale")
    pointers = [("ptr", f.pointer(f"%{name}")) for name in (*_MIX_OPERANDS[:4], "table")]
    k = Loop(f, "0", "%count", 1, pointers)
    *at, root = k.values
    low, high = (f.load(at[0]), f.load(at[1])), (f.load(at[2]), f.load(at[3]))
    _mixed(f, low, high, scale, f.load_pair(root), at)
    k.end([f.behind(pointer, f.pair) for pointer in k.values])
    return f.text()


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


def _mirror_text(symbol: str, machine: Machine, kind: str) -> str:
    """Complete the spectrum of real numbers, of odd length n: element n - k is conj(x[k])."""
    f = FourierText(symbol, ("real", "imaginary", "count"), machine, kind)
    real, imaginary = f.pointer("%real"), f.pointer("%imaginary")
    f.store("zeroinitializer", imaginary)
    half = f.let("lshr i64 %count, 1")
    after = f.when(f.let("icmp sgt i64 %count, 1"))
    end = f.let(f"mul i64 %count, {f.pair}")
    pointers = [("ptr", f.behind(pointer, f.pair)) for pointer in (real, imaginary)]
    ends = [
        ("ptr", f.behind(f.let(f"getelementptr i8, ptr {pointer}, i64 {end}"), -f.pair))
        for pointer in (real, imaginary)
    ]
    k = Loop(f, "0", half, 1, [*pointers, *ends])
    at = k.values
    f.store(f.load(at[0]), at[2])
    f.store(f.neg(f.load(at[1])), at[3])
    k.end([f.behind(pointer, f.pair * (1 if n < 2 else -1)) for n, pointer in enumerate(at)])
    f.end_when(after)
    return f.text()


_TURN_OPERANDS = ("source", "count", "fine", "coarse", "rows")


def _turn_text(symbol: str, machine: Machine, kind: str, *, is_broadcast: bool) -> str:
    """Multiply element j * rows + k by coarse[j] * fine[k], k < rows, overwriting it.

    The tables have a number for each lane, or one for all.
    """
    f = FourierText(symbol, _TURN_OPERANDS, machine, kind)
    step = 2 * f.width if is_broadcast else f.pair
    take: Callable[[str], Complex] = f.broadcast_pair if is_broadcast else f.load_pair
    begin = [("ptr", f.pointer("%source")), ("ptr", f.pointer("%coarse"))]
    fine = f.pointer("%fine")
    outer = Loop(f, "0", "%count", "%rows", begin)
    source, coarse = outer.values
    root = take(coarse)
    rest = f.smaller(f.minus("%count", outer.number), "%rows")
    inner = Loop(f, "0", rest, 1, [("ptr", source), ("ptr", fine)])
    here, other = inner.values
    factor = f.complex_mul(take(other), root)
    f.store_pair(f.complex_mul(f.load_pair(here), factor), here)
    following = f.behind(here, f.pair)
    inner.end([following, f.behind(other, step)])
    outer.end([following, f.behind(coarse, step)])
    return f.text()


_CHIRP_OPERANDS = ("source", "source_step", "target", "target_step", "count", "table", "padded")


def _chirp_text(symbol: str, machine: Machine, kind: str, *, swapped: str) -> str:
    """Multiply elements by a table's, and add zeros up to `padded` elements.

    `swapped` says whose real and imaginary parts are exchanged: the operand's, the result's, or
    neither's.
    """
    f = FourierText(symbol, _CHIRP_OPERANDS, machine, kind)
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "target", "table")]
    k = Loop(f, "0", "%count", 1, begin)
    source, target, table = k.values
    value = f.load_pair(source)
    value = (value[1], value[0]) if swapped == "operand" else value
    product = f.complex_mul(value, f.broadcast_pair(table))
    f.store_pair((product[1], product[0]) if swapped == "result" else product, target)
    following = f.behind(target, "%target_step")
    k.end([f.behind(source, "%source_step"), following, f.behind(table, 2 * f.width)])
    after = f.when(f.let("icmp slt i64 %count, %padded"))
    rest = Loop(f, "%count", "%padded", 1, [("ptr", following)])
    (pointer,) = rest.values
    f.store_pair(("zeroinitializer", "zeroinitializer"), pointer)
    rest.end([f.behind(pointer, "%target_step")])
    f.end_when(after)
    return f.text()


def _take_text(symbol: str, machine: Machine, kind: str) -> str:
    """Bring elements at byte offsets into the order of a table of int64."""
    f = FourierText(symbol, ("source", "target", "count", "offsets"), machine, kind)
    source = f.pointer("%source")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("target", "offsets")]
    k = Loop(f, "0", "%count", 1, begin)
    target, offsets = k.values
    f.store_pair(f.load_pair(f.behind(source, f.let(f"load i64, ptr {offsets}"))), target)
    k.end([f.behind(target, f.pair), f.behind(offsets, 8)])
    return f.text()


def _give_text(symbol: str, machine: Machine, kind: str) -> str:
    """Store elements, real and imaginary parts exchanged, times a table's at byte offsets."""
    f = FourierText(symbol, ("source", "target", "count", "offsets", "table"), machine, kind)
    target = f.pointer("%target")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "offsets", "table")]
    k = Loop(f, "0", "%count", 1, begin)
    source, offsets, table = k.values
    real, imaginary = f.load_pair(source)
    product = f.complex_mul((imaginary, real), f.broadcast_pair(table))
    f.store_pair(product, f.behind(target, f.let(f"load i64, ptr {offsets}")))
    k.end([f.behind(source, f.pair), f.behind(offsets, 8), f.behind(table, 2 * f.width)])
    return f.text()


def _sum_text(symbol: str, machine: Machine, kind: str, *, is_swapped: bool) -> str:
    """Add two elements; of a swapped one the first has its parts exchanged."""
    f = FourierText(symbol, ("one", "other", "target"), machine, kind)
    one, other = (f.load_pair(f.pointer(f"%{name}")) for name in ("one", "other"))
    one = (one[1], one[0]) if is_swapped else one
    f.store_pair(f.complex_add(one, other), f.pointer("%target"))
    return f.text()


def fourier_blocks(machine: Machine) -> dict[str, TextFunction]:
    """Return every function of this module by its name in kernels."""
    found: dict[str, TextFunction] = {}

    def add(name: str, count: int, text: Callable[..., str], **options: bool | str) -> None:
        for kind in _KINDS:
            title = f"fourier_{name}_{kind}"
            write = functools.partial(text, machine=machine, kind=kind, **options)
            found[title] = TextFunction(title, count, write)

    add("to_half", len(_REAL_OPERANDS), _halves_text, is_inverse=True)
    add("from_half", len(_REAL_OPERANDS), _halves_text, is_inverse=False)
    add("mix", len(_MIX_OPERANDS), _mix_text)
    add("take", 4, _take_text)
    add("give", 5, _give_text)
    add("sum", 3, _sum_text, is_swapped=False)
    add("sum_swapped", 3, _sum_text, is_swapped=True)
    add("mirror", 3, _mirror_text)
    add("turn_lanes", len(_TURN_OPERANDS), _turn_text, is_broadcast=False)
    add("turn", len(_TURN_OPERANDS), _turn_text, is_broadcast=True)
    for name, swapped in (("chirp", ""), ("chirp_to", "result"), ("chirp_from", "operand")):
        add(name, len(_CHIRP_OPERANDS), _chirp_text, swapped=swapped)
    return found
