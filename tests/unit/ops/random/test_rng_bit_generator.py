import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_client import Builder, ops
from xla_contract.errors import CancelledError
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ops.numerics.counter_generators import philox, three_fry

DEFAULT, THREE_FRY, PHILOX = RandomAlgorithm


def asking(algorithm: RandomAlgorithm, shape: str) -> RngBitGeneratorAttributes:
    return RngBitGeneratorAttributes(algorithm, Shape.parse(shape))


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
        ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
        ("243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
    ],
)
def test_three_fry_gives_the_published_answers(counter: str, key: str, wanted: str) -> None:
    found = three_fry(_joined(key), _joined(counter), 1, lambda: None)
    assert found.tolist() == [words(wanted)]


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_answers(counter: str, key: str, wanted: str) -> None:
    found = philox(_joined(key), _joined(counter), 1, lambda: None)
    assert found.tolist() == [words(wanted)]


def _joined(text: str) -> int:
    return sum(word << 32 * position for position, word in enumerate(words(text)))


@pytest.mark.parametrize("generator", [three_fry, philox])
def test_drawing_on_gives_what_drawing_at_once_gives(generator) -> None:  # type: ignore[no-untyped-def]
    whole = generator(7, 2**64 - 9000, 40000, lambda: None)
    tail = generator(7, 2**64 - 9000 + 9500, 30500, lambda: None)
    np.testing.assert_array_equal(whole[9500:], tail)
    assert len(np.unique(whole, axis=0)) == 40000


@pytest.mark.parametrize("generator", [three_fry, philox])
def test_drawing_can_be_stopped(generator) -> None:  # type: ignore[no-untyped-def]
    def stop() -> None:
        raise CancelledError("stopped")

    with pytest.raises(CancelledError):
        generator(1, 2, 3, stop)


@pytest.mark.parametrize("kind", ["u8", "s16", "u32", "f32", "u64", "f64", "s4", "f4e2m1fn"])
@pytest.mark.parametrize("algorithm", RandomAlgorithm)
def test_the_new_state_goes_on_where_the_bits_end(algorithm: RandomAlgorithm, kind: str) -> None:
    state = np.array([3, 4], np.uint64)
    draw = asking(algorithm, f"{kind}[2,4]")
    after, first = result_of(Opcode.RNG_BIT_GENERATOR, state, attributes=draw)
    per_count = 1 if kind.endswith("64") else 2
    counts = 8 // per_count if algorithm is THREE_FRY else 8 // per_count // 2
    assert after.tolist() == [3, 4 + counts]
    _, second = result_of(Opcode.RNG_BIT_GENERATOR, after, attributes=draw)
    assert first.tobytes() != second.tobytes()


def test_a_third_word_is_the_upper_half_of_the_counter() -> None:
    draw = asking(PHILOX, "u32[6]")
    short, bits = result_of(
        Opcode.RNG_BIT_GENERATOR, np.array([9, 2**64 - 1], np.uint64), attributes=draw
    )
    long, same = result_of(
        Opcode.RNG_BIT_GENERATOR, np.array([9, 2**64 - 1, 9], np.uint64), attributes=draw
    )
    np.testing.assert_array_equal(bits, same)
    assert short.tolist() == [9, 1]
    assert long.tolist() == [9, 1, 10]


@pytest.mark.parametrize(
    ("requested", "given"),
    [("f32[3]", "u32[3]"), ("s8[]", "u8[]"), ("bf16[2]", "u16[2]"), ("u64[2,0]", "u64[2,0]")],
)
def test_the_builder_gives_unsigned_bits(requested: str, given: str) -> None:
    state = Builder("draw").parameter(0, Shape.parse("u64[2]"))
    found = ops.rng_bit_generator(THREE_FRY, state, Shape.parse(requested))
    assert str(found.shape) == f"(u64[2], {given})"


@pytest.mark.parametrize("algorithm", RandomAlgorithm)
def test_the_bits_may_be_the_only_result(algorithm: RandomAlgorithm) -> None:
    state = np.array([3, 4], np.uint64)
    pair = result_of(Opcode.RNG_BIT_GENERATOR, state, attributes=asking(algorithm, "u32[5]"))
    alone = RngBitGeneratorAttributes(algorithm, Shape.parse("u32[5]"), has_state=False)
    bits = result_of(Opcode.RNG_BIT_GENERATOR, state, attributes=alone)
    np.testing.assert_array_equal(bits, pair[1])
