"""ThreeFry 2x32 and Philox 4x32 as instructions for kernels: random words of one counter.

The numbers are those of xla_server.ops.numerics.counter_generators. The rounds are unrolled, so
that a loop over counters is pure arithmetic and is vectorised.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_contract.ops.random.rng_bit_generator import THREE_FRY_PARITY, THREE_FRY_ROTATIONS
from xla_server.codegen.instructions.instruction import instruction, instruction_of
from xla_server.codegen.kernel_ir.analysis.counts import THREE_FRY
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.ops.numerics.counter_generators import MULTIPLIERS, WEYL

_WORD, _WIDE = ir.IntType(32), ir.IntType(64)


@instruction_of(types.uint64(types.uint64, types.uint64))
def three_fry(b: Any, key: Any, counter: Any) -> Any:
    """The two words of a counter, the first one in the lower half of a uint64."""
    low, high = _halves(b, key)
    parity = b.xor(b.xor(low, high), ir.Constant(_WORD, THREE_FRY_PARITY))
    keys = (low, high, parity)
    x, y = _halves(b, counter)
    x, y = b.add(x, low), b.add(y, high)
    for injection in range(5):
        for rotation in THREE_FRY_ROTATIONS[injection % 2]:
            x = b.add(x, y)
            y = b.xor(_rotated(b, y, rotation), x)
        x = b.add(x, keys[(injection + 1) % 3])
        y = b.add(b.add(y, keys[(injection + 2) % 3]), ir.Constant(_WORD, injection + 1))
    return _joined(b, x, y)


PHILOX = Routine(
    "philox",
    parameters(Unit.BITS, "key", "low", "high"),
    (Type.U64, Type.U64),
    cost=lambda _: 8 * CostClass.TRANSCENDENTAL / CostClass.ACCESS,
)
"""Draws four words, each in the time of two transcendental functions: twice that of ThreeFry, as
rounds have products of 64 bits."""


@instruction
def philox(typing_context, key, low, high):  # type: ignore[no-untyped-def]
    """The four words of a counter of two halves, as two uint64, the first word lowest."""
    pair = types.UniTuple(types.uint64, 2)

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        keys = _halves(b, args[0])
        (x, y), (z, w) = _halves(b, args[1]), _halves(b, args[2])
        for round_number in range(10):
            first, second = (
                b.add(keys[n], ir.Constant(_WORD, round_number * WEYL[n] % 2**32)) for n in (0, 1)
            )
            left = _product(b, x, int(MULTIPLIERS[0]))
            right = _product(b, z, int(MULTIPLIERS[1]))
            x, z = b.xor(b.xor(right[1], y), first), b.xor(b.xor(left[1], w), second)
            y, w = right[0], left[0]
        return context.make_tuple(b, pair, [_joined(b, x, y), _joined(b, z, w)])

    return pair(types.uint64, types.uint64, types.uint64), generate


def _halves(b: Any, wide: Any) -> tuple[Any, Any]:
    return b.trunc(wide, _WORD), b.trunc(b.lshr(wide, ir.Constant(_WIDE, 32)), _WORD)


def _joined(b: Any, low: Any, high: Any) -> Any:
    return b.or_(b.zext(low, _WIDE), b.shl(b.zext(high, _WIDE), ir.Constant(_WIDE, 32)))


def _rotated(b: Any, x: Any, by: int) -> Any:
    left = b.shl(x, ir.Constant(_WORD, by))
    return b.or_(left, b.lshr(x, ir.Constant(_WORD, 32 - by)))


def _product(b: Any, x: Any, factor: int) -> tuple[Any, Any]:
    return _halves(b, b.mul(b.zext(x, _WIDE), ir.Constant(_WIDE, factor)))


RANDOM_WORDS: dict[str, Any] = {THREE_FRY: three_fry, PHILOX.name: philox}
"""Every instruction of this module by its name in kernels."""
