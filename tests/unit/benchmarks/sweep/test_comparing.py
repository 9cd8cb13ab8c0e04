from collections.abc import Sequence

import numpy as np

from tests.benchmarks.sweep.comparing import gap, perturbed, verdict, widened
from tests.benchmarks.sweep.measuring import run_apart
from tests.benchmarks.sweep.program import Parameter, Program

ONE = [np.linspace(1, 2, 10, dtype=np.float32)]


def same(arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list(arguments)


def cancelling(arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [(each.astype(np.float64) - ONE[0]).astype(np.float32) * 1e6 for each in arguments]


def refusing(arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    raise TypeError(f"no program for {arguments[0].dtype}")


def test_rounding_is_allowed_and_more_is_not() -> None:
    assert verdict([ONE[0] * np.float32(1 + 1e-6)], ONE, ONE, same) == ("ok", "")
    assert verdict([ONE[0] + np.float32(0.1)], ONE, ONE, same)[0] == "WRONG"


def test_what_last_bits_of_arguments_change_may_differ() -> None:
    theirs = cancelling(ONE)
    ours = [theirs[0] + np.float32(0.2)]
    assert verdict(ours, theirs, ONE, cancelling)[0] == "chaotic"
    assert verdict([theirs[0] + np.float32(500)], theirs, ONE, cancelling)[0] == "WRONG"


def test_noise_below_the_last_bit_of_the_arguments_is_allowed() -> None:
    zero = [np.zeros(10, np.float32)]
    assert verdict([zero[0] + np.float32(1e-14)], zero, ONE, lambda _: zero)[0] == "chaotic"
    assert verdict([zero[0] + np.float32(1e-6)], zero, ONE, lambda _: zero)[0] == "WRONG"
    assert verdict([zero[0] + np.float32(np.inf)], zero, ONE, lambda _: zero)[0] == "WRONG"


def test_errors_like_those_of_xla_are_allowed() -> None:
    noise = [np.full(10, 1e-6, np.float32)]
    exact = [np.full(10, 1e-16)]
    assert verdict([noise[0] * -3], noise, ONE, lambda _: noise)[0] == "WRONG"
    assert verdict([noise[0] * -3], noise, ONE, lambda _: noise, lambda _: exact)[0] == "chaotic"
    assert verdict([noise[0] * -3], noise, ONE, lambda _: noise, refusing)[0] == "WRONG"
    assert verdict([noise[0] * 30], noise, ONE, lambda _: noise, lambda _: exact)[0] == "WRONG"


def test_results_of_each_operation_by_itself_are_allowed() -> None:
    ours = [ONE[0] * np.float32(-1)]
    assert verdict(ours, ONE, ONE, same, same, lambda _: ours)[0] == "chaotic"
    assert verdict(ours, ONE, ONE, same, same, same)[0] == "WRONG"


def test_each_operation_by_itself_rounds_its_result() -> None:
    # The product lies between two numbers and its rounding is the third; a sum rounded once has
    # what is left over, and its sign is not zero.
    parameters = (Parameter("float32", (1,)),) * 3
    drawn = Program("sign", ("v0 = p0 * p1 - p2",), "jnp.sign(v0)", parameters)
    x, rounded = np.float32([1 + 2.0**-12]), np.float32([1 + 2.0**-11])
    assert run_apart(drawn.function, (x, x, rounded)) == [0]


def test_integers_and_infinities_are_compared_exactly() -> None:
    counted = [np.arange(4)]
    assert verdict([np.array([0, 1, 2, 4])], counted, ONE, lambda _: counted)[0] == "WRONG"
    infinite = [np.where(np.arange(10) == 3, np.float32(np.inf), ONE[0])]
    assert verdict(infinite, ONE, ONE, same)[0] == "WRONG"
    assert gap(infinite[0], infinite[0]).distance == 0


def test_other_shapes_types_and_counts_are_wrong() -> None:
    assert verdict([], ONE, ONE, same)[0] == "WRONG"
    assert verdict([ONE[0][:5]], ONE, ONE, same)[0] == "WRONG"
    assert verdict([ONE[0].astype(np.float64)], ONE, ONE, same)[0] == "WRONG"


def test_perturbing_changes_floats_a_little_and_integers_not_at_all() -> None:
    floats, integers = perturbed([ONE[0], np.arange(3)], 0)
    assert not np.array_equal(floats, ONE[0])
    np.testing.assert_allclose(floats, ONE[0], rtol=3e-7)
    assert np.array_equal(integers, np.arange(3))
    assert [each.dtype.name for each in widened([ONE[0], np.arange(3)])] == ["float64", "int64"]
