"""Chains of one class of instruction each: a step that is repeated, in HLO and in numpy.

A step takes its value from the one before, and nothing of it can be simplified away: its constants
are arguments, or its effect depends on what the value is.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from tests.depth.cases import Case, parameters, scalar_function
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

Step: TypeAlias = Callable[..., Op]
"""The next value, from the value, the other arguments, and the number of the step."""


@dataclasses.dataclass(frozen=True)
class Chain:
    """A repeated step on the first of the arguments, and the same in numpy.

    `each` says how many instructions of the class one step has.
    """

    arguments: tuple[Any, ...]
    step: Step
    known: Callable[..., Any]
    tolerance: float = 0.0
    each: int = 1

    def case(self, instructions: int) -> Case:
        """The chain with so many instructions of its class."""
        builder = Builder("chain")
        value, *others = parameters(builder, self.arguments)
        known, *arrays = self.arguments
        with np.errstate(all="ignore"):
            for number in range(-(-instructions // self.each)):
                value = self.step(value, *others, number)
                known = self.known(known, *arrays, number)
        return Case(builder.build(value), self.arguments, (known,), self.tolerance)


U32_4 = Shape.parse("u32[4]")
U32 = np.array([3, 5, 1 << 31, 123456789], np.uint32)
ODD = np.array([7, 11, 13, 3], np.uint32)
WORD = np.array([1 << 20, 77, 5, 1 << 31], np.uint32)
F32 = np.array([0.5, -1.25, 2.0, 3.5], np.float32)
ORDER = np.array([1, 2, 3, 0], np.int32)
SQUARE = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD_U32 = scalar_function(ops.add, ["u32", "u32"], "sum")
ADD_F32 = scalar_function(ops.add, ["f32", "f32"], "sum")
MAX_F32 = scalar_function(ops.max, ["f32", "f32"], "largest")
LESS_U32 = scalar_function(ops.lt, ["u32", "u32"], "less")
XOR_MAP = scalar_function(lambda x, y: ops.xor(ops.mul(x, y), y), ["u32", "u32"], "mapped")


def _function(function: Callable[..., Op], name: str) -> Computation:
    builder = Builder(name)
    return builder.build(function(*(builder.parameter(n, U32_4) for n in range(2))))


def _rows(x: Op, i: Op, number: int) -> Op:
    numbers = GatherDimensionNumbers((), (0,), (0,), 1)
    return ops.gather(x, i, numbers, [1])


def _scatter(x: Op, i: Op, updates: Op, number: int) -> Op:
    numbers = ScatterDimensionNumbers((), (0,), (0,), 1)
    return ops.scatter(x, i, updates, ADD_U32, numbers)


def _scattered(x: Any, i: Any, updates: Any, number: int) -> Any:
    new = x.copy()
    np.add.at(new, i, updates)
    return new


def _dynamic_slice(x: Op, number: int) -> Op:
    start = ops.convert_element_type(
        ops.rem(ops.reshape(ops.slice(x, [0], [1]), []), 3), ElementType.S32
    )
    taken = ops.dynamic_slice(x, [start], [2])
    return ops.concat_in_dim([ops.slice(x, [2], [4]), taken + 1], 0)


def _dynamically_sliced(x: Any, number: int) -> Any:
    start = int(x[0] % 3)
    return np.concatenate([x[2:4], x[start : start + 2] + np.uint32(1)])


def _dynamic_update(x: Op, i: Op, number: int) -> Op:
    first = ops.slice(x, [0], [1])
    return ops.dynamic_update_slice(x, ops.add(first, ops.slice(x, [2], [3])), [i])


def _dynamically_updated(x: Any, i: Any, number: int) -> Any:
    new = x.copy()
    new[i] = x[0] + x[2]
    return new


def _rotated(x: Op, number: int) -> Op:
    return ops.concat_in_dim([ops.slice(x, [1], [4]), ops.slice(x, [0], [1]) + 1], 0)


def _known_rotated(x: Any, number: int) -> Any:
    return np.concatenate([x[1:], x[:1] + np.uint32(1)])


def _padded(x: Op, filler: Op, number: int) -> Op:
    config = PaddingConfig((PaddingDimension(1, -1, 0),))
    return ops.add(ops.pad(x, filler, config), x)


def _known_padded(x: Any, filler: Any, number: int) -> Any:
    return np.concatenate([filler[None], x[:-1]]) + x


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


def _known_shaped(x: Any, number: int) -> Any:
    if number % 3 == 0:
        return x.T
    return x.reshape(2, 3) if number % 3 == 1 else x[::-1]


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


def _known_convolution(x: Any, weights: Any, number: int) -> Any:
    wide = np.pad(x[0, 0], 1)
    return np.correlate(wide, weights[0, 0], "valid").astype(np.float32)[None, None]


def _windows(x: Op, y: Op, number: int) -> Op:
    zero = x.builder.constant(np.uint32(0))
    pads = [(1, 1)]
    return ops.xor(
        ops.reduce_window_with_general_padding(x, zero, ADD_U32, [3], [1], padding=pads), y
    )


def _known_windows(x: Any, y: Any, number: int) -> Any:
    wide = np.pad(x, 1)
    return (wide[:-2] + wide[1:-1] + wide[2:]) ^ y


def _called(x: Op, y: Op, number: int) -> Op:
    return ops.call(TWO_STEPS, [x, y])


def _loop(x: Op, y: Op, number: int) -> Op:
    pair = ops.while_(BELOW, NEXT, ops.tuple([x, y]))
    return ops.add(ops.get_tuple_element(pair, 0), y)


def _known_loop(x: Any, y: Any, number: int) -> Any:
    while x < 50:
        x = x * np.uint32(3) + y
    return x + y


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


def _known_generated(x: Any, number: int) -> Any:
    # The state counts the elements of 64 bits that were made.
    return np.array([x[0], x[1] + np.uint64(2)], np.uint64)


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


TWO_STEPS = _function(lambda x, y: ops.add(ops.mul(x, y), y), "two_steps")
NEXT = _body()
BELOW = _condition()
INCREASE = scalar_function(lambda x: ops.add(x, 5), ["u32"], "increase")
TRIPLE = scalar_function(lambda x: ops.add(ops.mul(x, 3), 1), ["u32"], "triple")
SYMMETRIC = np.array([[4, 2], [2, 5]], np.float64)
UPPER = np.array([[2, 1], [0, 4]], np.float64)

CHAINS: Mapping[str, Chain] = MappingProxyType(
    {
        "unary": Chain(
            (F32,),
            lambda x, n: (ops.cos, ops.neg, ops.abs, ops.sqrt)[n % 4](x),
            lambda x, n: (np.cos, np.negative, np.abs, np.sqrt)[n % 4](x),
            1e-5,
        ),
        "unary-integer": Chain(
            (U32, ODD),
            lambda x, y, n: ops.mul(ops.not_(x), y),
            lambda x, y, n: ~x * y,
            each=2,
        ),
        "binary": Chain(
            (U32, ODD), lambda x, y, n: ops.add(ops.mul(x, y), y), lambda x, y, n: x * y + y, each=2
        ),
        "binary-of-itself": Chain(
            (U32,),
            lambda x, n: ops.add(x, x) if n % 2 else ops.add(ops.mul(x, x), 1),
            lambda x, n: x + x if n % 2 else x * x + np.uint32(1),
        ),
        "scalar": Chain(
            (np.uint32(5), np.uint32(7)),
            lambda x, y, n: ops.add(ops.mul(x, y), y),
            lambda x, y, n: x * y + y,
            each=2,
        ),
        "shapes": Chain((SQUARE,), _shaped, _known_shaped),
        "reduce": Chain((U32, ODD), _reduced, lambda x, y, n: (x * np.uint32(3)) ^ y),
        "slice": Chain(
            (np.arange(30000, dtype=np.uint32), np.uint32(1)),
            lambda x, y, n: ops.add(
                ops.slice(x, [1], [x.shape.dimensions[0]]),
                ops.broadcast(y, [x.shape.dimensions[0] - 1]),
            ),
            lambda x, y, n: x[1:] + y,
        ),
        "dynamic-slice": Chain((U32,), _dynamic_slice, _dynamically_sliced),
        "dynamic-update-slice": Chain((U32, np.int32(1)), _dynamic_update, _dynamically_updated),
        "gather": Chain((U32, ORDER[:, None]), _rows, lambda x, i, n: x[i[:, 0]]),
        "scatter": Chain(
            (U32, ORDER[:, None], ODD), _scatter, lambda x, i, u, n: _scattered(x, i[:, 0], u, n)
        ),
        "concatenate": Chain((U32,), _rotated, _known_rotated),
        "pad": Chain((U32, np.uint32(9)), _padded, _known_padded),
        "select": Chain(
            (U32, ODD),
            lambda x, y, n: ops.select(ops.lt(x, y), ops.add(x, y), ops.xor(x, y)),
            lambda x, y, n: np.where(x < y, x + y, x ^ y),
        ),
        "compare": Chain(
            (U32 > 4, U32 > 9),
            lambda x, y, n: ops.ne(x, y) if n % 3 else ops.not_(x),
            lambda x, y, n: x != y if n % 3 else ~x,
        ),
        "convert": Chain(
            (U32, ODD), _converted, lambda x, y, n: x.astype(np.uint8).astype(np.uint32) + y, each=2
        ),
        "dot": Chain(
            (np.eye(4, dtype=np.float32) * 3, np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]),
            _dot,
            lambda x, y, n: x @ y,
        ),
        "convolution": Chain(
            (F32[None, None], np.array([[[0, 0, -1]]], np.float32)),
            _convolution,
            _known_convolution,
        ),
        "sort": Chain(
            (U32, ODD),
            lambda x, y, n: ops.xor(ops.sort(x, LESS_U32), y),
            lambda x, y, n: np.sort(x) ^ y,
        ),
        "map": Chain(
            (U32, ODD), lambda x, y, n: ops.map([x, y], XOR_MAP), lambda x, y, n: (x * y) ^ y
        ),
        "tuple": Chain((U32, ODD), _tuples, lambda x, y, n: (x + y) ^ x),
        "copy": Chain((U32, ODD), lambda x, y, n: ops.copy(ops.add(x, y)), lambda x, y, n: x + y),
        "bitcast-convert": Chain(
            (U32.astype(np.uint32), ODD),
            _bits,
            lambda x, y, n: (x + x).view(np.int32 if n % 2 == 0 else np.uint32),
        ),
        "reduce-window": Chain((U32, ODD), _windows, _known_windows),
        "clamp": Chain(
            (U32, ODD),
            lambda x, y, n: ops.clamp(y, ops.mul(x, y), ops.add(y, 1 << 31)),
            lambda x, y, n: np.clip(x * y, y, y + np.uint32(1 << 31)),
        ),
        "iota": Chain(
            (U32,),
            lambda x, n: ops.xor(ops.mul(x, 3), x.builder.iota(U32_4, 0)),
            lambda x, n: (x * np.uint32(3)) ^ np.arange(4, dtype=np.uint32),
        ),
        "call": Chain((U32, ODD), _called, lambda x, y, n: x * y + y),
        "while": Chain((np.uint32(2), np.uint32(1)), _loop, _known_loop),
        "conditional": Chain(
            (np.uint32(2), np.uint32(1)),
            _chosen,
            lambda x, y, n: x * np.uint32(3) + np.uint32(1) if x % 2 else x + np.uint32(5),
        ),
        "rng": Chain((F32, np.float32(0), np.float32(1)), _random, lambda x, a, b, n: x),
        "rng-bit-generator": Chain(
            (np.array([7, 1 << 63], np.uint64),), _generated, _known_generated
        ),
        "custom-call": Chain((F32, F32[::-1] * 2), _largest, lambda x, y, n: np.sort(y - x)[::-1]),
        "cholesky": Chain(
            (SYMMETRIC, SYMMETRIC),
            lambda x, y, n: ops.add(ops.cholesky(x), y),
            lambda x, y, n: np.linalg.cholesky(np.tril(x) + np.tril(x, -1).T) + y,
            1e-9,
        ),
        "triangular-solve": Chain(
            (SYMMETRIC, UPPER.T),
            lambda x, y, n: ops.triangular_solve(y, ops.add(x, 1.0)),
            lambda x, y, n: np.linalg.solve(y, x + 1.0),
            1e-9,
        ),
        "fft": Chain(
            (np.array([1, 2 - 1j, 3j, 4], np.complex128),),
            lambda x, n: ops.fft(x, FftType.IFFT if n % 2 else FftType.FFT, [4]),
            lambda x, n: np.fft.ifft(x) if n % 2 else np.fft.fft(x),
            1e-9,
        ),
        "optimization-barrier": Chain(
            (U32, ODD),
            lambda x, y, n: ops.optimization_barrier(ops.add(x, y)),
            lambda x, y, n: x + y,
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
            with np.errstate(over="ignore"):
                known = chain.known(known, *itertools.islice(arrays, count), number)
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
