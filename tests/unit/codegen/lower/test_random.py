"""Compiled rng-bit-generator beside the interpreter, bit for bit."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.unit.codegen import compiled
from tests.unit.codegen.compiled import imported, on_cpu
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.random.rng_bit_generator import (
    UNSIGNED_OF_WIDTH,
    RandomAlgorithm,
    RngBitGeneratorAttributes,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

KEY = 0x0123456789ABCDEF
NEAR_CARRY = 2**64 - 3
SIZES = [
    (),
    (1,),
    (7,),
    (1000,),
    (1001,),
    (3, 5),
    (5, 3, 7),
    (7, 3, 5),
    (3, 4, 5),
    (2, 300),
    (4, 1),
    (5, 1),
    (1, 1),
    (0,),
    (3, 0),
]
STATES = {
    RandomAlgorithm.THREE_FRY: [[KEY, 5], [KEY, NEAR_CARRY]],
    RandomAlgorithm.PHILOX: [[KEY, NEAR_CARRY], [KEY, NEAR_CARRY, 9], [KEY, 5, 2**64 - 1]],
    RandomAlgorithm.DEFAULT: [[KEY, 5], [KEY, 2**64 - 1, 2**64 - 1]],
}
PAIRS = [(algorithm, state) for algorithm, states in STATES.items() for state in states]


def drawn(algorithm: RandomAlgorithm, state: Op, shape: Shape) -> list[Op]:
    attributes = RngBitGeneratorAttributes(algorithm, shape)
    pair = state.builder.instruction(Opcode.RNG_BIT_GENERATOR, [state], attributes)
    return [ops.get_tuple_element(pair, 0), ops.get_tuple_element(pair, 1)]


@pytest.mark.parametrize("algorithm", RandomAlgorithm)
def test_bits_without_the_state(
    assert_same: Callable[..., None], algorithm: RandomAlgorithm
) -> None:
    def function(state: Op) -> Op:
        alone = RngBitGeneratorAttributes(algorithm, Shape.parse("u32[7]"), has_state=False)
        bits = state.builder.instruction(Opcode.RNG_BIT_GENERATOR, [state], alone)
        both = drawn(algorithm, state, Shape.parse("u32[7]"))
        return ops.tuple([bits, ops.eq(bits, both[1])], state.builder)

    assert_same(function, np.array([KEY, 5], np.uint64))


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_shape(assert_same: Callable[..., None], number: int) -> None:
    """In the slice a state has every second of the shapes."""
    algorithm, state = PAIRS[number]
    shapes = SIZES if FULL else SIZES[number % 2 :: 2]

    def function(state: Op) -> Op:
        results = [
            result
            for kind, every in ((E.U32, shapes), (E.U64, [(), (7,), (3, 4)]))
            for sizes in every
            for result in drawn(algorithm, state, Shape.array(kind, sizes))
        ]
        return ops.tuple(results, state.builder)

    assert_same(function, np.array(state, np.uint64))


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_element_type(assert_same: Callable[..., None], number: int) -> None:
    algorithm, state = PAIRS[number]
    kinds = [kind for kind in E if kind.is_array and (kind.is_integer or kind.is_floating)]

    def function(state: Op) -> Op:
        results = [
            result
            for kind in kinds
            if kind.bit_width in UNSIGNED_OF_WIDTH
            for result in drawn(algorithm, state, Shape.array(kind, (5, 9)))
        ]
        return ops.tuple(results, state.builder)

    assert_same(function, np.array(state, np.uint64))


@pytest.mark.parametrize("algorithm", list(RandomAlgorithm))
@pytest.mark.parametrize("sizes", [(300_000,), (299_999,), (2, 200_001)])
def test_parts_by_several_threads(algorithm: RandomAlgorithm, sizes: tuple[int, ...]) -> None:
    def function(state: Op) -> Op:
        results = drawn(algorithm, state, Shape.array(E.U32, sizes))
        return ops.tuple(results, state.builder)

    compiled.assert_same(function, np.array([KEY, NEAR_CARRY], np.uint64))


def test_states_follow_each_other_in_a_loop() -> None:
    def program(state: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, Any]:
            return jax.lax.rng_bit_generator(state, (7,), np.uint32)

        return jax.lax.scan(step, state, None, length=5)

    assert_like_jax(program, np.arange(4, dtype=np.uint32))


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_numbers_of_jax(implementation: str) -> None:
    def program(seed: Any) -> Any:
        one, two = jax.random.split(jax.random.key(seed, impl=implementation))
        return (
            jax.random.bits(one, (33,), np.uint8),
            jax.random.randint(two, (9, 5), -10, 1000),
            jax.random.uniform(one, (50, 3)),
            jax.random.bernoulli(jax.random.fold_in(two, 3), 0.3, (17,)),
        )

    assert_like_jax(program, np.uint32(42))


def assert_like_jax(program: Any, *arguments: Any) -> None:
    """The bits that jaxlib gives."""
    lowered = jax.jit(program).lower(*arguments)
    module = imported(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    expected = jax.tree.leaves(jax.jit(program)(*arguments))
    for ours, theirs in zip(on_cpu(module, arguments), expected, strict=True):
        np.testing.assert_array_equal(ours, np.asarray(theirs))
