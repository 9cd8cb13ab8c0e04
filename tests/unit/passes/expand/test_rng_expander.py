"""Expansion of random numbers: the instructions, and the numbers of both platforms."""

from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import assert_equal_bits
from tests.unit.codegen.compiled import CPU
from tests.unit.passes.passing import (
    assert_kept,
    imported,
    leaves,
    opcodes,
    passed,
    rewritten,
    stated,
)
from xla_contract.ops.random.rng import RandomDistribution
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import CompileOptions
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule
from xla_server.ops.random.rng import words_of
from xla_server.passes.expand.rng_expander import RngExpander

SEED = 11
COUNT = 40_000
FLOATS = [kind for kind in E if kind.is_array and kind.is_floating]
INTEGERS = [kind for kind in E if kind.is_array and kind.is_integer]
LOOP = """HloModule m
condition {
  c = (s32[], f32[5,400]) parameter(0)
  n = s32[] get-tuple-element(c), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(n, five), direction=LT
}
body {
  c = (s32[], f32[5,400]) parameter(0)
  n = s32[] get-tuple-element(c), index=0
  rows = f32[5,400] get-tuple-element(c), index=1
  zero = f32[] constant(0)
  one = f32[] constant(1)
  row = f32[1,400] rng(zero, one), distribution=rng_uniform
  nothing = s32[] constant(0)
  written = f32[5,400] dynamic-update-slice(rows, row, n, nothing)
  step = s32[] constant(1)
  next = s32[] add(n, step)
  ROOT r = (s32[], f32[5,400]) tuple(next, written)
}
ENTRY main {
  rows = f32[5,400] parameter(0)
  start = s32[] constant(0)
  c = (s32[], f32[5,400]) tuple(start, rows)
  loop = (s32[], f32[5,400]) while(c), condition=condition, body=body
  ROOT filled = f32[5,400] get-tuple-element(loop), index=1
}"""


def text(part: Any) -> str:
    return part.text if isinstance(part, E) else str(part)


def rng(kind: E, distribution: str, *sizes: int) -> HloModule:
    shape = Shape.array(kind, sizes).without_layout()
    scalar = f"{kind.text}[]"
    return stated([scalar] * 2, f"{shape} rng(x0, x1), distribution=rng_{distribution}")


def compiled(module: HloModule, *arguments: Any, seed: int = SEED, runs: int = 1) -> list[Any]:
    """The results of each run, in one list."""
    executable = CPU.compile(module, module.entry_program_shape, options=CompileOptions(seed=seed))
    device = CPU.devices[0]
    placed = [
        CPU.to_device(Literal.from_numpy(argument, part.shape.without_layout()), device)
        for argument, part in zip(arguments, module.entry.parameters, strict=True)
    ]
    found: list[Any] = []
    for _ in range(runs):
        output: Any = executable.execute(
            placed,
            device=device,
            options=ExecuteOptions(),
        ).output
        found += leaves(output.value)
    return found


def both(module: HloModule, *arguments: Any, seed: int = SEED) -> tuple[Any, Any]:
    """The result of the cpu platform, and the interpreter's."""
    (ours,) = compiled(module, *arguments, seed=seed)
    (expected,) = leaves(evaluate_checked(module, arguments, seed=seed))
    return ours, expected


def bounds(kind: E, low: Any, high: Any) -> list[Any]:
    wide = np.uint64 if kind is E.U64 else None
    return [np.asarray(bound, wide).astype(kind.dtype) for bound in (low, high)]


def next_below(kind: E, number: Any) -> float:
    """The largest number of a type that is less, found among all or by numpy."""
    if kind.bit_width > 8:
        return float(np.nextafter(number, np.array(-np.inf, kind.dtype)))
    every = np.arange(2**kind.bit_width, dtype=np.uint8).view(kind.dtype).astype(np.float64)
    return float(np.max(every[every < float(number)]))


class TestExpansion:
    @pytest.mark.parametrize(
        ("kind", "distribution"),
        [(E.F32, "uniform"), (E.S64, "uniform"), (E.F32, "normal")],
        ids=text,
    )
    def test_fires(self, kind: E, distribution: str) -> None:
        before = rng(kind, distribution, 3, 50)
        after = passed(before, RngExpander())
        found = opcodes(after)
        assert "rng" not in found
        assert found["rng-bit-generator"] == found["custom-call"] == 1
        arguments = bounds(kind, 0, 9)
        assert_kept(before, after, arguments, relative=1e-6 if distribution == "normal" else 0.0)
        passed(after, RngExpander(), fires=False)

    def test_nothing_is_drawn_for_no_elements(self) -> None:
        before = rng(E.F32, "uniform", 3, 0)
        after = rewritten(before, RngExpander(), arguments=bounds(E.F32, 0, 1))
        assert opcodes(after) == {"constant": 1}
        ours, expected = both(before, *bounds(E.F32, 0, 1))
        assert_equal_bits(ours, expected)

    def test_does_not_fire(self) -> None:
        state = "u64[2] rng-get-and-update-state(), delta=1"
        passed(stated(["f32[2]"], "f32[2] negate(x0)", f"s = {state}"), RngExpander(), fires=False)

    def test_words(self) -> None:
        uniform, normal = RandomDistribution.UNIFORM, RandomDistribution.NORMAL
        shapes = [("f16[7]", uniform), ("s8[7]", uniform), ("u64[7]", uniform), ("f64[7]", normal)]
        words = [str(words_of(kind, Shape.parse(shape))) for shape, kind in shapes]
        assert words == ["u32[7]", "u64[7]", "u64[2,7]", "u64[2,7]"]


class TestUniform:
    @pytest.mark.parametrize("kind", FLOATS, ids=text)
    def test_floats(self, kind: E) -> None:
        low, high = bounds(kind, 1 if kind is E.F8E8M0FNU else -1, 2)
        ours, expected = both(rng(kind, "uniform", COUNT), low, high)
        assert_equal_bits(ours, expected)
        numbers = ours.astype(np.float64)
        assert numbers.min() >= float(low)
        assert numbers.max() <= next_below(kind, high)
        if kind.bit_width >= 16:
            assert abs(numbers.mean() - 0.5) < 0.03
            assert abs(numbers.var() - 9 / 12) < 0.03

    @pytest.mark.parametrize("kind", INTEGERS, ids=text)
    def test_integers_of_the_whole_width(self, kind: E) -> None:
        low = -(2 ** (kind.bit_width - 1)) if kind.is_signed_integer else 0
        high = low + 2**kind.bit_width - 1
        ours, expected = both(rng(kind, "uniform", COUNT), *bounds(kind, low, high))
        assert_equal_bits(ours, expected)
        shares = (ours.astype(np.float64) - low) / (high - low)
        assert shares.min() < 1e-3
        if kind.bit_width <= 8:
            counts = np.bincount((ours.astype(np.int64) - low), minlength=high - low)
            assert len(counts) == high - low
            expected_count = COUNT / (high - low)
            assert np.abs(counts - expected_count).max() < 6 * np.sqrt(expected_count)
        else:
            assert shares.max() > 1 - 1e-3
            assert abs(shares.mean() - 0.5) < 0.01
            assert abs(shares.var() - 1 / 12) < 0.01

    @pytest.mark.parametrize(
        ("kind", "low"), [(E.S32, -(2**31)), (E.U64, 5), (E.S64, -(2**63))], ids=text
    )
    def test_no_number_of_a_range_comes_more_often(self, kind: E, low: int) -> None:
        """Words of the type's own width would give each third number twice as often."""
        high = low + 3 * 2 ** (kind.bit_width - 2)
        (ours,) = compiled(rng(kind, "uniform", COUNT), *bounds(kind, low, high))
        rests = [(int(number) - low) % 3 for number in ours]
        assert np.abs(np.bincount(rests) / COUNT - 1 / 3).max() < 0.02

    @pytest.mark.parametrize(
        ("kind", "low", "high"),
        [
            (E.F32, 1, 1 + 2**-22),
            (E.F64, -1 - 2**-51, -1),
            (E.BF16, 255, 256),
            (E.F16, -2, -1.5),
            (E.F8E5M2, -1, 0),
            (E.F8E4M3FN, 14, 16),
            (E.F4E2M1FN, 0, 6),
            (E.F8E8M0FNU, 1, 64),
        ],
        ids=text,
    )
    def test_rounding_does_not_reach_the_bound(self, kind: E, low: float, high: float) -> None:
        given = bounds(kind, low, high)
        ours, expected = both(rng(kind, "uniform", COUNT), *given)
        assert_equal_bits(ours, expected)
        numbers = ours.astype(np.float64)
        assert numbers.min() == low
        assert numbers.max() == next_below(kind, given[1])

    @pytest.mark.parametrize(("kind", "most"), [(E.F32, 3e38), (E.F64, 1.7e308)], ids=text)
    def test_a_range_of_more_than_the_largest_number(self, kind: E, most: float) -> None:
        ours, expected = both(rng(kind, "uniform", COUNT), *bounds(kind, -most, most))
        assert_equal_bits(ours, expected)
        shares = ours.astype(np.float64) / most
        assert abs(shares.mean()) < 0.02
        assert abs(shares.var() - 1 / 3) < 0.02

    @pytest.mark.parametrize("kind", [E.F32, E.BF16, E.S32, E.S64, E.U8], ids=text)
    @pytest.mark.parametrize("high", [7, 3])
    def test_an_empty_range(self, kind: E, high: int) -> None:
        ours, expected = both(rng(kind, "uniform", 100), *bounds(kind, 7, high))
        assert_equal_bits(ours, expected)
        assert set(ours.astype(int).tolist()) == {7}

    def test_a_scalar(self) -> None:
        ours, expected = both(rng(E.F32, "uniform"), *bounds(E.F32, 3, 4))
        assert_equal_bits(ours, expected)
        assert 3 <= ours < 4


class TestNormal:
    @pytest.mark.parametrize("kind", [E.F16, E.BF16, E.F32, E.F64], ids=text)
    def test_like_the_interpreter(self, kind: E) -> None:
        """Elementary functions are those of the platforms: four ULPs."""
        ours, expected = (
            array.astype(np.float64)
            for array in both(rng(kind, "normal", 3, COUNT), *bounds(kind, 0, 1))
        )
        step = {E.F16: 2**-10, E.BF16: 2**-7, E.F32: 2**-23, E.F64: 2**-52}[kind]
        np.testing.assert_allclose(ours, expected, rtol=4 * step, atol=0)
        assert abs(ours.mean()) < 0.02
        assert abs(ours.var() - 1) < 0.02
        # Skewness and kurtosis, and how many are beyond two deviations.
        assert abs((ours**3).mean()) < 0.05
        assert abs((ours**4).mean() - 3) < 0.1
        assert abs((np.abs(ours) > 2).mean() - 0.0455) < 0.003

    @pytest.mark.parametrize("kind", [E.F8E5M2, E.F8E4M3FN, E.F8E3M4, E.F4E2M1FN], ids=text)
    def test_narrow_floats(self, kind: E) -> None:
        ours, expected = both(rng(kind, "normal", COUNT), *bounds(kind, 1, 2))
        assert np.mean(ours != expected) < 1e-3
        assert abs(ours.astype(np.float64).mean() - 1) < 0.1

    def test_mean_and_deviation(self) -> None:
        ours, expected = both(rng(E.F32, "normal", COUNT), *bounds(E.F32, -3, 0.5))
        np.testing.assert_allclose(ours, expected, rtol=0, atol=4e-6)
        assert abs(ours.mean() + 3) < 0.02
        assert abs(ours.std() - 0.5) < 0.02


class TestStates:
    def test_a_seed_repeats_its_numbers_and_no_seed_does_not(self) -> None:
        module, given = rng(E.F32, "uniform", 100), bounds(E.F32, 0, 1)
        one, two = compiled(module, *given, runs=2)
        np.testing.assert_array_equal(one, two)
        (other,) = compiled(module, *given, seed=SEED + 1)
        assert not np.any(one == other)
        one, two = compiled(module, *given, seed=0, runs=2)
        assert not np.any(one == two)

    def test_instructions_of_a_program_are_independent(self) -> None:
        """They draw in the order of the text, whatever is read first, and by nothing at all."""
        root = "(f32[20000], f32[20000]) tuple(c, a)"
        drawn = "rng(z, o), distribution=rng"
        module = stated(
            [],
            root,
            f"lost = f32[3] {drawn}_normal",
            f"a = f32[20000] {drawn}_uniform",
            f"b = f32[20000] {drawn}_uniform",
            # Inlined before random numbers are expanded, which puts instructions in order.
            "c = f32[20000] map(b, b), dimensions={0}, to_apply=add",
        )
        found = compiled(module)
        for ours, expected in zip(found, leaves(evaluate(module, [], seed=SEED)), strict=True):
            assert_equal_bits(ours, expected)
        assert abs(np.corrcoef(*found)[0, 1]) < 0.03

    def test_each_iteration_of_a_loop_has_its_own(self) -> None:
        ours, expected = both(imported(LOOP), np.zeros((5, 400), np.float32))
        assert_equal_bits(ours, expected)
        assert np.abs(np.corrcoef(ours) - np.eye(5)).max() < 0.2
        assert len(np.unique(ours)) > 1990

    def test_each_call_has_its_own(self) -> None:
        module = imported(
            """HloModule m
            f {
              low = f32[] parameter(0)
              high = f32[] parameter(1)
              ROOT r = f32[50] rng(low, high), distribution=rng_uniform
            }
            ENTRY main {
              low = f32[] parameter(0)
              high = f32[] parameter(1)
              one = f32[50] call(low, high), to_apply=f
              two = f32[50] call(low, high), to_apply=f
              ROOT difference = f32[50] subtract(one, two)
            }"""
        )
        ours, expected = both(module, *bounds(E.F32, 0, 1))
        assert_equal_bits(ours, expected)
        assert np.all(ours != 0)

    @pytest.mark.parametrize(
        "made",
        [
            "rng(x, y), distribution=rng_uniform",
            "rng(x, y), distribution=rng_normal",
            "call(x, y), to_apply=several",
            "fusion(x, y), kind=kLoop, calls=several",
        ],
    )
    def test_each_element_of_a_map_has_its_own(self, made: str) -> None:
        """Later draws are equal, too: as many states were drawn before."""
        module = imported(
            """HloModule m
            larger {
              a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT r = f32[] maximum(a, b)
            }
            several {
              x = f32[] parameter(0)
              y = f32[] parameter(1)
              numbers = f32[3] rng(x, y), distribution=rng_uniform
              ROOT largest = f32[] reduce(numbers, x), dimensions={0}, to_apply=larger
            }
            f {
              x = f32[] parameter(0)
              y = f32[] parameter(1)
              ROOT r = f32[] MADE
            }
            ENTRY main {
              low = f32[4,3] parameter(0)
              high = f32[4,3] parameter(1)
              mapped = f32[4,3] map(low, high), dimensions={0,1}, to_apply=f
              zero = f32[] constant(0)
              one = f32[] constant(1)
              behind = f32[4,3] rng(zero, one), distribution=rng_uniform
              ROOT r = f32[8,3] concatenate(mapped, behind), dimensions={0}
            }""".replace("MADE", made)
        )
        low = np.arange(12, dtype=np.float32).reshape(4, 3)
        ours, expected = both(module, low, low + np.float32(1))
        if "normal" in made:
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
        else:
            assert_equal_bits(ours, expected)
        assert len(np.unique(ours[:4] - low)) == low.size
