"""Steps of Fourier transforms over blocks, other than passes.

Operands are int64. Addresses `real` and `imaginary` are those of a block's parts, which may be
exchanged; tables have complex numbers.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from xla_server.codegen.compiler.llvm_text import TextLoop
from xla_server.codegen.compiler.shared_functions import TextFunction
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.codegen.routines.fourier.fourier_text import Complex, FourierText
from xla_server.target.machine import Machine

_KINDS = ("f32", "f64")

_TWO_SIDES = *parameters(Unit.UPDATE, "real", "imaginary"), *parameters(Unit.COUNT, "count")
_HALVES = *_TWO_SIDES, *parameters(Unit.READ, "table")
_PARTS = ("low", "low_swapped", "high", "high_swapped")
_CHIRP = (
    *parameters(Unit.READ, "source"),
    *parameters(Unit.OFFSET, "source_step"),
    *parameters(Unit.WRITE, "target"),
    *parameters(Unit.OFFSET, "target_step"),
    *parameters(Unit.COUNT, "count"),
    *parameters(Unit.READ, "table"),
    *parameters(Unit.COUNT, "padded"),
)
_TURN = (
    *parameters(Unit.UPDATE, "block"),
    *parameters(Unit.COUNT, "count"),
    *parameters(Unit.READ, "fine", "coarse"),
    *parameters(Unit.COUNT, "rows"),
)
_TAKE = (
    *parameters(Unit.READ, "source"),
    *parameters(Unit.WRITE, "target"),
    *parameters(Unit.COUNT, "count"),
    *parameters(Unit.READ, "offsets"),
)
_SUM = *parameters(Unit.READ, "one", "other"), *parameters(Unit.WRITE, "target")
_PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "to_half": _HALVES,
    "from_half": _HALVES,
    "mix": (
        *parameters(Unit.UPDATE, *_PARTS),
        *parameters(Unit.COUNT, "count"),
        *parameters(Unit.READ, "table"),
        *parameters(Unit.NUMBER, "scale"),
    ),
    "take": _TAKE,
    "give": (*_TAKE, *parameters(Unit.READ, "table")),
    "sum": _SUM,
    "sum_swapped": _SUM,
    "mirror": _TWO_SIDES,
    "turn_lanes": _TURN,
    "turn": _TURN,
    "chirp": _CHIRP,
    "chirp_to": _CHIRP,
    "chirp_from": _CHIRP,
}


def block_routine(step: str, kind: str) -> Routine:
    """Return the routine of a step, for blocks of a real type."""
    return Routine(f"fourier_{step}_{kind}", _PARAMETERS[step], cost=_cost)


def _cost(n: Mapping[str, int]) -> float:
    """Return the vector instructions of a step; one of sums is for a single element."""
    return 6 * n.get("count", 1)


def _halves_text(symbol: str, machine: Machine, kind: str, *, is_inverse: bool) -> str:
    """Return the step between a real transform and a complex one of half its length.

    It works within its buffer.

    With half = `count`, elements k and half - k become s * (x[k] + conj(x[half - k])) + t[k] *
    (x[k] - conj(x[half - k])), and the conjugate of the difference. The first number of the table
    is s, the others are t. An inverse step takes elements 0 and half, which are real, to element
    0; a forward step does the opposite.
    """
    f = FourierText(symbol, block_routine("to_half", kind).names, machine, kind)
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
    return f.text()


def _mix_text(symbol: str, machine: Machine, kind: str) -> str:
    """The step of `from_half` and `to_half` for elements k and half - k in blocks of their own.

    Lanes are neighbouring k, and so are the table's. The addresses of a block's parts are given,
    real before imaginary; `scale` are the bits of an f64.
    """
    f = FourierText(symbol, block_routine("mix", kind).names, machine, kind)
    scale = f.factor("%scale")
    pointers = [("ptr", f.pointer(f"%{name}")) for name in (*_PARTS, "table")]
    k = TextLoop(f, "0", "%count", 1, pointers)
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
    f = FourierText(symbol, block_routine("mirror", kind).names, machine, kind)
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
    return f.text()


def _turn_text(symbol: str, machine: Machine, kind: str, *, is_broadcast: bool) -> str:
    """Multiply element j * rows + k by coarse[j] * fine[k], k < rows, overwriting it.

    The tables have a number for each lane, or one for all.
    """
    f = FourierText(symbol, block_routine("turn", kind).names, machine, kind)
    step = 2 * f.width if is_broadcast else f.pair
    take: Callable[[str], Complex] = f.broadcast_pair if is_broadcast else f.load_pair
    begin = [("ptr", f.pointer("%block")), ("ptr", f.pointer("%coarse"))]
    fine = f.pointer("%fine")
    outer = TextLoop(f, "0", "%count", "%rows", begin)
    source, coarse = outer.values
    root = take(coarse)
    rest = f.smaller(f.minus("%count", outer.number), "%rows")
    inner = TextLoop(f, "0", rest, 1, [("ptr", source), ("ptr", fine)])
    here, other = inner.values
    factor = f.complex_mul(take(other), root)
    f.store_pair(f.complex_mul(f.load_pair(here), factor), here)
    following = f.behind(here, f.pair)
    inner.end([following, f.behind(other, step)])
    outer.end([following, f.behind(coarse, step)])
    return f.text()


def _chirp_text(symbol: str, machine: Machine, kind: str, *, swapped: str) -> str:
    """Multiply elements by a table's, and add zeros up to `padded` elements.

    `swapped` says whose real and imaginary parts are exchanged: the operand's, the result's, or
    neither's.
    """
    f = FourierText(symbol, block_routine("chirp", kind).names, machine, kind)
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "target", "table")]
    k = TextLoop(f, "0", "%count", 1, begin)
    source, target, table = k.values
    value = f.load_pair(source)
    value = (value[1], value[0]) if swapped == "operand" else value
    product = f.complex_mul(value, f.broadcast_pair(table))
    f.store_pair((product[1], product[0]) if swapped == "result" else product, target)
    following = f.behind(target, "%target_step")
    k.end([f.behind(source, "%source_step"), following, f.behind(table, 2 * f.width)])
    with f.when(f.let("icmp slt i64 %count, %padded")):
        rest = TextLoop(f, "%count", "%padded", 1, [("ptr", following)])
        (pointer,) = rest.values
        f.store_pair(("zeroinitializer", "zeroinitializer"), pointer)
        rest.end([f.behind(pointer, "%target_step")])
    return f.text()


def _take_text(symbol: str, machine: Machine, kind: str) -> str:
    """Bring elements at byte offsets into the order of a table of int64."""
    f = FourierText(symbol, block_routine("take", kind).names, machine, kind)
    source = f.pointer("%source")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("target", "offsets")]
    k = TextLoop(f, "0", "%count", 1, begin)
    target, offsets = k.values
    f.store_pair(f.load_pair(f.behind(source, f.let(f"load i64, ptr {offsets}"))), target)
    k.end([f.behind(target, f.pair), f.behind(offsets, 8)])
    return f.text()


def _give_text(symbol: str, machine: Machine, kind: str) -> str:
    """Store elements, real and imaginary parts exchanged, times a table's at byte offsets."""
    f = FourierText(symbol, block_routine("give", kind).names, machine, kind)
    target = f.pointer("%target")
    begin = [("ptr", f.pointer(f"%{name}")) for name in ("source", "offsets", "table")]
    k = TextLoop(f, "0", "%count", 1, begin)
    source, offsets, table = k.values
    real, imaginary = f.load_pair(source)
    product = f.complex_mul((imaginary, real), f.broadcast_pair(table))
    f.store_pair(product, f.behind(target, f.let(f"load i64, ptr {offsets}")))
    k.end([f.behind(source, f.pair), f.behind(offsets, 8), f.behind(table, 2 * f.width)])
    return f.text()


def _sum_text(symbol: str, machine: Machine, kind: str, *, is_swapped: bool) -> str:
    """Add two elements; of a swapped one the first has its parts exchanged."""
    f = FourierText(symbol, block_routine("sum", kind).names, machine, kind)
    one, other = (f.load_pair(f.pointer(f"%{name}")) for name in ("one", "other"))
    one = (one[1], one[0]) if is_swapped else one
    f.store_pair(f.complex_add(one, other), f.pointer("%target"))
    return f.text()


def fourier_blocks(machine: Machine) -> dict[str, TextFunction]:
    """Return every function of this module by its name in kernels."""
    texts: Mapping[str, Callable[..., str]] = {
        "to_half": functools.partial(_halves_text, is_inverse=True),
        "from_half": functools.partial(_halves_text, is_inverse=False),
        "mix": _mix_text,
        "take": _take_text,
        "give": _give_text,
        "sum": functools.partial(_sum_text, is_swapped=False),
        "sum_swapped": functools.partial(_sum_text, is_swapped=True),
        "mirror": _mirror_text,
        "turn_lanes": functools.partial(_turn_text, is_broadcast=False),
        "turn": functools.partial(_turn_text, is_broadcast=True),
        "chirp": functools.partial(_chirp_text, swapped=""),
        "chirp_to": functools.partial(_chirp_text, swapped="result"),
        "chirp_from": functools.partial(_chirp_text, swapped="operand"),
    }
    found = [
        TextFunction(block_routine(step, kind), functools.partial(text, machine=machine, kind=kind))
        for step, text in texts.items()
        for kind in _KINDS
    ]
    return {function.__name__: function for function in found}
