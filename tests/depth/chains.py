"""Chains of one class of instruction each: a step that is repeated.

The result of a chain is known by evaluating its step alone, as often. A step takes its value from
the one before, and nothing of it can be simplified away: its constants are arguments, or its effect
depends on what the value is.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from tests.building import computation, scalars, shape_of
from tests.depth.cases import Case
from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

Step: TypeAlias = Callable[..., Op]
"""The next value, from the value, the other arguments, and the number of the step."""


@functools.lru_cache(maxsize=1000)
def _alone(step: Step, number: int, shapes: tuple[Shape, ...]) -> HloModule:
    """The module of one step."""
    return import_module(computation(lambda *values: step(*values, number), shapes).proto)


@dataclasses.dataclass(frozen=True)
class Chain:
    """A repeated step on the first of the arguments.

    `each` says how many instructions of the class one step has.
    """

    arguments: tuple[Any, ...]
    step: Step
    tolerance: float = 0.0
    each: int = 1

    def after(self, value: Any, others: Sequence[Any], number: int) -> Any:
        """The value after a step, by the evaluators of the step alone."""
        given = [np.asarray(each) for each in (value, *others)]
        return evaluate(_alone(self.step, number % PERIOD, tuple(map(shape_of, given))), given)

    def case(self, instructions: int) -> Case:
        """The chain with so many instructions of its class."""
        builder = Builder("chain")
        value, *others = parameters(builder, self.arguments)
        known, *arrays = self.arguments
        for number in range(-(-instructions // self.each)):
            value = self.step(value, *others, number)
            known = self.after(known, arrays, number)
        return Case(builder.build(value), self.arguments, (known,), self.tolerance)


PERIOD = 12
"""Steps after which those that differ by their numbers are the same again."""


def parameters(builder: Builder, arguments: Sequence[Any]) -> list[Op]:
    """Parameters shaped like the arguments."""
    return [builder.parameter(number, shape_of(each)) for number, each in enumerate(arguments)]


U32_4 = Shape.parse("u32[4]")
U32 = np.array([3, 5, 1 << 31, 123456789], np.uint32)
ODD = np.array([7, 11, 13, 3], np.uint32)
WORD = np.array([1 << 20, 77, 5, 1 << 31], np.uint32)
F32 = np.array([0.5, -1.25, 2.0, 3.5], np.float32)
ORDER = np.array([1, 2, 3, 0], np.int32)
SQUARE = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD_U32 = scalars(ops.add, ElementType.U32, ElementType.U32, name="sum")
LESS_U32 = scalars(ops.lt, ElementType.U32, ElementType.U32, name="less")
XOR_MAP = scalars(
    lambda x, y: ops.xor(ops.mul(x, y), y), ElementType.U32, ElementType.U32, name="mapped"
)


def _rows(x: Op, i: Op, number: int) -> Op:
    numbers = GatherDimensionNumbers((), (0,), (0,), 1)
    return ops.gather(x, i, numbers, [1])


def _scatter(x: Op, i: Op, updates: Op, number: int) -> Op:
    numbers = ScatterDimensionNumbers((), (0,), (0,), 1)
    return ops.scatter(x, i, updates, ADD_U32, numbers)


def _dynamic_slice(x: Op, number: int) -> Op:
    start = ops.convert_element_type(
        ops.rem(ops.reshape(ops.slice(x, [0], [1]), []), 3), ElementType.S32
    )
    taken = ops.dynamic_slice(x, [start], [2])
    return ops.concat_in_dim([ops.slice(x, [2], [4]), taken + 1], 0)


def _dynamic_update(x: Op, i: Op, number: int) -> Op:
    first = ops.slice(x, [0], [1])
    return ops.dynamic_update_slice(x, ops.add(first, ops.slice(x, [2], [3])), [i])


def _rotated(x: Op, number: int) -> Op:
    return ops.concat_in_dim([ops.slice(x, [1], [4]), ops.slice(x, [0], [1]) + 1], 0)


def _padded(x: Op, filler: Op, number: int) -> Op:
    config = PaddingConfig((PaddingDimension(1, -1, 0),))
    return ops.add(ops.pad(x, filler, config), x)


def _dot(x: Op, matrix: Op, number: int) -> Op:
    return ops.dot_general(x, matrix, DotDimensionNumbers((1,), (0,)))


def _reduced(x: Op, y: Op, number: int) -> Op:
    wide = ops.broadcast_in_dim(x, [4, 3], [0])
    zero = x.builder.constant(np.uint32(0))
    return ops.xor(ops.reduce(wide, zero, ADD_U32, [1]), y)


def _shaped(x: Op, number: int) -> Op:
    if number % 3 == 0:
        return ops.transpose(x, [1, 0])
    if number % 3 == 1:
        return ops.reshape(x, [2, 3])
    return ops.rev(x, [0])


def _tuples(x: Op, y: Op, number: int) -> Op:
    pair = ops.tuple([ops.add(x, y), x])
    first, second = (ops.get_tuple_element(pair, n) for n in (0, 1))
    return ops.xor(first, second)


def _converted(x: Op, y: Op, number: int) -> Op:
    narrow = ops.convert_element_type(x, ElementType.U8)
    return ops.add(ops.convert_element_type(narrow, ElementType.U32), y)


def _bits(x: Op, y: Op, number: int) -> Op:
    kind = ElementType.S32 if number % 2 == 0 else ElementType.U32
    return ops.bitcast_convert_type(ops.add(x, x), kind)


def _convolution(x: Op, weights: Op, number: int) -> Op:
    return ops.conv_with_general_padding(x, weights, [1], [(1, 1)])


def _windows(x: Op, y: Op, number: int) -> Op:
    zero = x.builder.constant(np.uint32(0))
    pads = [(1, 1)]
    return ops.xor(
        ops.reduce_window_with_general_padding(x, zero, ADD_U32, [3], [1], padding=pads), y
    )


def _called(x: Op, y: Op, number: int) -> Op:
    return ops.call(TWO_STEPS, [x, y])


def _loop(x: Op, y: Op, number: int) -> Op:
    pair = ops.while_(BELOW, NEXT, ops.tuple([x, y]))
    return ops.add(ops.get_tuple_element(pair, 0), y)


def _chosen(x: Op, y: Op, number: int) -> Op:
    return ops.conditional(_index(x), [INCREASE, TRIPLE], [x, x])


def _index(x: Op) -> Op:
    return ops.convert_element_type(ops.rem(x, 2), ElementType.S32)


def _random(x: Op, low: Op, high: Op, number: int) -> Op:
    return ops.add(x, ops.floor(ops.rng_uniform(low, high, x.shape)))


def _generated(x: Op, number: int) -> Op:
    state, bits = (
        ops.get_tuple_element(ops.rng_bit_generator(RandomAlgorithm.THREE_FRY, x, x.shape), n)
        for n in (0, 1)
    )
    return ops.xor(state, ops.sub(bits, bits))


def _largest(x: Op, y: Op, number: int) -> Op:
    shape = Shape.parse("(f32[4], s32[4])")
    pair = ops.custom_call([ops.sub(y, x)], "TopK", shape)
    return ops.get_tuple_element(pair, 0)


def _body() -> Computation:
    builder = Builder("body")
    pair = builder.parameter(0, Shape.parse("(u32[], u32[])"))
    x, y = (ops.get_tuple_element(pair, n) for n in (0, 1))
    return builder.build(ops.tuple([ops.add(ops.mul(x, 3), y), y]))


def _condition() -> Computation:
    builder = Builder("condition")
    pair = builder.parameter(0, Shape.parse("(u32[], u32[])"))
    return builder.build(ops.lt(ops.get_tuple_element(pair, 0), 50))


TWO_STEPS = computation(lambda x, y: ops.add(ops.mul(x, y), y), [U32_4] * 2, "two_steps")
NEXT = _body()
BELOW = _condition()
INCREASE = scalars(lambda x: ops.add(x, 5), ElementType.U32, name="increase")
TRIPLE = scalars(lambda x: ops.add(ops.mul(x, 3), 1), ElementType.U32, name="triple")
SYMMETRIC = np.array([[4, 2], [2, 5]], np.float64)
UPPER = np.array([[2, 1], [0, 4]], np.float64)

CHAINS: Mapping[str, Chain] = MappingProxyType(
    {
        "unary": Chain((F32,), lambda x, n: (ops.cos, ops.neg, ops.abs, ops.sqrt)[n % 4](x), 1e-5),
        "unary-integer": Chain((U32, ODD), lambda x, y, n: ops.mul(ops.not_(x), y), each=2),
        "binary": Chain((U32, ODD), lambda x, y, n: ops.add(ops.mul(x, y), y), each=2),
        "binary-of-itself": Chain(
            (U32,), lambda x, n: ops.add(x, x) if n % 2 else ops.add(ops.mul(x, x), 1)
        ),
        "scalar": Chain(
            (np.uint32(5), np.uint32(7)), lambda x, y, n: ops.add(ops.mul(x, y), y), each=2
        ),
        "shapes": Chain((SQUARE,), _shaped),
        "reduce": Chain((U32, ODD), _reduced),
        "slice": Chain(
            (np.arange(30000, dtype=np.uint32), np.uint32(1)),
            lambda x, y, n: ops.add(
                ops.slice(x, [1], [x.shape.dimensions[0]]),
                ops.broadcast(y, [x.shape.dimensions[0] - 1]),
            ),
        ),
        "dynamic-slice": Chain((U32,), _dynamic_slice),
        "dynamic-update-slice": Chain((U32, np.int32(1)), _dynamic_update),
        "gather": Chain((U32, ORDER[:, None]), _rows),
        "scatter": Chain((U32, ORDER[:, None], ODD), _scatter),
        "concatenate": Chain((U32,), _rotated),
        "pad": Chain((U32, np.uint32(9)), _padded),
        "select": Chain(
            (U32, ODD), lambda x, y, n: ops.select(ops.lt(x, y), ops.add(x, y), ops.xor(x, y))
        ),
        "compare": Chain(
            (U32 > 4, U32 > 9), lambda x, y, n: ops.ne(x, y) if n % 3 else ops.not_(x)
        ),
        "convert": Chain((U32, ODD), _converted, each=2),
        "dot": Chain(
            (np.eye(4, dtype=np.float32) * 3, np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]), _dot
        ),
        "convolution": Chain((F32[None, None], np.array([[[0, 0, -1]]], np.float32)), _convolution),
        "sort": Chain((U32, ODD), lambda x, y, n: ops.xor(ops.sort(x, LESS_U32), y)),
        "map": Chain((U32, ODD), lambda x, y, n: ops.map([x, y], XOR_MAP)),
        "tuple": Chain((U32, ODD), _tuples),
        "copy": Chain((U32, ODD), lambda x, y, n: ops.copy(ops.add(x, y))),
        "bitcast-convert": Chain((U32.astype(np.uint32), ODD), _bits),
        "reduce-window": Chain((U32, ODD), _windows),
        "clamp": Chain(
            (U32, ODD), lambda x, y, n: ops.clamp(y, ops.mul(x, y), ops.add(y, 1 << 31))
        ),
        "iota": Chain((U32,), lambda x, n: ops.xor(ops.mul(x, 3), x.builder.iota(U32_4, 0))),
        "call": Chain((U32, ODD), _called),
        "while": Chain((np.uint32(2), np.uint32(1)), _loop),
        "conditional": Chain((np.uint32(2), np.uint32(1)), _chosen),
        "rng": Chain((F32, np.float32(0), np.float32(1)), _random),
        "rng-bit-generator": Chain((np.array([7, 1 << 63], np.uint64),), _generated),
        "custom-call": Chain((F32, F32[::-1] * 2), _largest),
        "cholesky": Chain(
            (SYMMETRIC, SYMMETRIC), lambda x, y, n: ops.add(ops.cholesky(x), y), 1e-9
        ),
        "triangular-solve": Chain(
            (SYMMETRIC, UPPER.T), lambda x, y, n: ops.triangular_solve(y, ops.add(x, 1.0)), 1e-9
        ),
        "fft": Chain(
            (np.array([1, 2 - 1j, 3j, 4], np.complex128),),
            lambda x, n: ops.fft(x, FftType.IFFT if n % 2 else FftType.FFT, [4]),
            1e-9,
        ),
        "optimization-barrier": Chain(
            (U32, ODD), lambda x, y, n: ops.optimization_barrier(ops.add(x, y))
        ),
    }
)
"""A chain for each class of instructions."""

MIXED = tuple(
    name
    for name, chain in CHAINS.items()
    if isinstance(chain.arguments[0], np.ndarray)
    and chain.arguments[0].dtype == np.uint32
    and chain.arguments[0].shape == (4,)
    and name != "bitcast-convert"
)
"""Chains over the same kind of value, which can be one chain."""


def mixed(instructions: int) -> Case:
    """A program of at least so many instructions, in which the chains take turns."""
    builder = Builder("mixed")
    others = [argument for name in MIXED for argument in CHAINS[name].arguments[1:]]
    value, *made = parameters(builder, [U32, *others])
    known: Any = U32
    number = 0
    while value.id < instructions:
        rest, arrays = iter(made), iter(others)
        for name in MIXED:
            chain = CHAINS[name]
            count = len(chain.arguments) - 1
            value = chain.step(value, *itertools.islice(rest, count), number)
            known = chain.after(known, list(itertools.islice(arrays, count)), number)
            number += 1
    return Case(builder.build(value), (U32, *others), (known,))


def stacked(count: int) -> Case:
    """So many rows of a matrix, every other one changed, stacked in reverse order."""
    matrix = np.arange(count * 4, dtype=np.uint32).reshape(count, 4)
    builder = Builder("stacked")
    (x,) = parameters(builder, [matrix])
    rows = []
    for number in reversed(range(count)):
        row = ops.slice(x, [number, 0], [number + 1, 4])
        rows.append(ops.mul(row, row) if number % 2 else row)
    expected = matrix.copy()
    expected[1::2] *= expected[1::2]
    return Case(builder.build(ops.concat_in_dim(rows, 0)), (matrix,), (expected[::-1],))
