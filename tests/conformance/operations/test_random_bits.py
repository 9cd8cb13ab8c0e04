"""Random bits and JAX's random numbers, bit for bit those of XLA's CPU backend."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import assert_close, assert_equal_bits, by_both, evaluated, run_on_xla
from tests.conformance.sweep.draws.depth import paired
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.types.element_type import ElementType
from xla_server.ir.importer import import_module
from xla_server.ops.random.rng_get_and_update_state import RandomStates

BIG = 2**64 - 1
ALGORITHMS = ("rng_three_fry", "rng_philox", "rng_default")
TYPES = (
    *("u2", "u4", "u8", "u16", "u32", "u64", "s2", "s4", "s8", "s16", "s32", "s64"),
    *("f4e2m1fn", "f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64"),
)
SIZES = ((), (0,), (1,), (2,), (7,), (8,), (3, 5), (5, 3, 2), (3, 0), (2, 0), (1, 1), (7, 7, 9))


def bits(algorithm: str, state: Sequence[int], shape: str) -> None:
    import jax

    words = np.array(state, np.uint64)
    form = f"u64[{len(state)}]"
    text = f"({form}, {shape}) rng-bit-generator(x0), algorithm={algorithm}"
    proto = parse_hlo(program([form], text))
    with jax.enable_x64(True):
        wanted = run_on_xla(proto, [words])
    state_after, drawn = evaluated(proto, [words])
    assert_equal_bits(state_after, wanted[0])
    # On its way into jaxlib every type of bits becomes the unsigned one of its width.
    assert drawn.dtype == ElementType.from_text(shape.partition("[")[0]).dtype
    assert_equal_bits(drawn.view(wanted[1].dtype), wanted[1])


@pytest.mark.parametrize(
    ("sizes", "variant"),
    paired(SIZES, itertools.product(["u8", "u32", "u64"], ALGORITHMS), 3),
    ids=str,
)
def test_bits_of_every_size(sizes: tuple[int, ...], variant: tuple[str, str]) -> None:
    kind, algorithm = variant
    bits(algorithm, [0x123456789ABCDEF, 7], f"{kind}[{','.join(map(str, sizes))}]")


@pytest.mark.parametrize(("kind", "algorithm"), paired(TYPES, ALGORITHMS[:2]))
def test_bits_of_every_type(kind: str, algorithm: str) -> None:
    bits(algorithm, [99, 2**63], f"{kind}[5,3]")


@pytest.mark.parametrize(
    ("algorithm", "state"),
    [
        ("rng_three_fry", [BIG, BIG - 1]),
        ("rng_three_fry", [3, 2**32 - 2]),
        ("rng_philox", [BIG, BIG - 1]),
        ("rng_philox", [5, BIG - 1]),
        ("rng_philox", [5, BIG - 1, 8]),
        ("rng_philox", [5, BIG - 1, BIG]),
        ("rng_default", [5, 6, 7]),
    ],
)
@pytest.mark.parametrize("kind", ["u16", "u32", "u64"])
def test_counters_carry_and_wrap(algorithm: str, state: list[int], kind: str) -> None:
    bits(algorithm, state, f"{kind}[19]")


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
@pytest.mark.parametrize("kind", ["u32", "u64"])
def test_bits_beyond_one_block(algorithm: str, kind: str) -> None:
    bits(algorithm, [11, BIG - 5000], f"{kind}[129,1027]")


def test_each_instruction_of_an_executable_has_its_state() -> None:
    import jax
    from jax._src.lib import _jax, xla_client

    proto = parse_hlo(
        program(
            [],
            "(u64[2], u64[2]) tuple(a, b)",
            "a = u64[2] rng-get-and-update-state(), delta=-200000000",
            "b = u64[2] rng-get-and-update-state(), delta=5",
        )
    )
    devices = tuple(jax.devices("cpu")[:1])
    executable = devices[0].client.compile_and_load(
        _jax.mlir.hlo_to_stablehlo(proto.SerializeToString()),
        xla_client.DeviceList(devices),
        xla_client.CompileOptions(),
    )
    module, states = import_module(proto), RandomStates()
    for _ in range(3):
        wanted = [np.asarray(part) for part in executable.execute([])]
        found: Any = evaluate_checked(module, [], random_states=states)
        for ours, theirs in zip(found, wanted, strict=True):
            assert_equal_bits(ours, theirs)


def drawing(draw: Callable[[Any], Any], generator: str) -> Callable[[Any], Any]:
    """A draw from the key that a seed makes."""
    import jax

    return lambda seed: draw(jax.random.key(seed, impl=generator))


EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "bits": lambda random, key: [random.bits(key, (5, 3), f"uint{n}") for n in (8, 16, 32, 64)],
    "uniform": lambda random, key: [random.uniform(key, (7,)), random.uniform(key, (4,), "f8")],
    "uniform_narrow": lambda random, key: [
        random.uniform(key, (9,), d) for d in ("f2", "bfloat16")
    ],
    "randint": lambda random, key: [
        random.randint(key, (11,), -5, 900, "int32"),
        random.randint(key, (3, 2), 0, 200, "uint8"),
    ],
    "permutation": lambda random, key: random.permutation(key, 17),
    "shuffled_rows": lambda random, key: random.permutation(key, np.arange(12).reshape(4, 3)),
    "split": lambda random, key: random.key_data(random.split(key, 5)),
    "fold_in": lambda random, key: random.key_data(random.fold_in(key, 3)),
    "bernoulli": lambda random, key: random.bernoulli(key, 0.3, (13,)),
    "choice": lambda random, key: random.choice(key, 20, (6,), replace=False),
}
CLOSE: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "normal": (lambda random, key: random.normal(key, (500,), "f4"), 4),
    "normal_wide": (lambda random, key: random.normal(key, (500,), "f8"), 32),
    "exponential": (lambda random, key: random.exponential(key, (500,), "f4"), 4),
    # XLA's log1p of f64 is itself some hundred units off.
    "exponential_wide": (lambda random, key: random.exponential(key, (500,), "f8"), 200),
}
"""Distributions, and the ULPs that the logarithms in them may add."""

GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")


@pytest.mark.parametrize(("name", "generator"), paired(EXACT, GENERATORS, 2))
def test_draws_without_rounding_are_jax_s_to_the_bit(name: str, generator: str) -> None:
    import jax

    function = drawing(lambda key: EXACT[name](jax.random, key), generator)
    for ours, theirs in by_both(function, [np.uint32(42)]):
        assert_equal_bits(ours, theirs)


@pytest.mark.parametrize(("name", "generator"), paired(CLOSE, GENERATORS, 2))
def test_draws_through_logarithms_are_jax_s_up_to_rounding(name: str, generator: str) -> None:
    import jax

    draw, ulps = CLOSE[name]
    function = drawing(lambda key: draw(jax.random, key), generator)
    for ours, theirs in by_both(function, [np.uint32(42)]):
        assert_close(ours, theirs, ulps)
