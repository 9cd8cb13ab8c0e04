"""Copies one after the other that have the effect of all at once."""

import random

import pytest

from tests.unit.buffers.test_assignment import value
from xla_server.buffers.code import Value
from xla_server.buffers.parallel_copies import parallel_copies


@pytest.mark.parametrize("seed", range(50))
def test_each_target_gets_what_its_source_had(seed: int) -> None:
    chance = random.Random(seed)
    values = [value(str(n)) for n in range(chance.randrange(1, 9))]
    sources = {each: chance.choice(values) for each in values if chance.random() < 0.9}
    memory: dict[Value, Value] = {each: each for each in values}
    for copy in parallel_copies(sources):
        memory[copy.target] = memory[copy.source]
    assert [memory[each] for each in values] == [sources.get(each, each) for each in values]


def test_a_value_is_saved_for_each_cycle_alone() -> None:
    a, b, c, d, e = map(value, "abcde")
    assert len(parallel_copies({a: b, b: a, c: d, d: c, e: a})) == 5 + 2
    assert len(parallel_copies({a: b, b: c, c: d})) == 3
    assert not parallel_copies({a: a})
