import random

import pytest

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Code, KernelThunk, Value
from xla_server.buffers.liveness import _mutual, analyse, interference, members
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.ir.checkpoints import cancellable

EMPTY = Kernel((), (), ())
WIDE = Shape.parse("f32[64]")


@pytest.mark.parametrize("count", [0, 1, 8, 9, 1024, 1030])
def test_what_one_value_conflicts_with_conflicts_with_it(count: int) -> None:
    chance = random.Random(count)
    pairs = {(chance.randrange(count), chance.randrange(count)) for _ in range(count)}
    sets = [0] * count
    for a, b in pairs:
        sets[a] |= 1 << b
    found = _mutual(sets)
    assert len(found) == count
    both = pairs | {(b, a) for a, b in pairs}
    assert {(a, b) for a, others in enumerate(found) for b in members(others)} == both


def test_conflicts_of_many_values_can_be_cancelled() -> None:
    checks: list[None] = []
    with cancellable(lambda: checks.append(None)):
        _mutual([0] * 5000)
    assert len(checks) >= 4


def test_a_value_may_have_the_memory_of_what_is_done_before_it() -> None:
    x, a, b, c = (Value(WIDE, name) for name in "xabc")
    chain = [(a, x), (b, a), (c, b)]
    thunks = [KernelThunk(to.name, EMPTY, 1, 1, (of, to), (of,), (to,)) for to, of in chain]
    code = Code([*thunks], [x], {}, [c])
    liveness = analyse(code)
    conflicts = interference(code, liveness)
    n = liveness.numbers
    found = {frozenset((p, q)) for p, others in enumerate(conflicts) for q in members(others)}
    assert found == {frozenset((n[p], n[q])) for p, q in ((x, a), (a, b), (b, c))}
