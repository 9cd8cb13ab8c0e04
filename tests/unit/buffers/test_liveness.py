import functools
import tracemalloc
from collections.abc import Callable

import pytest

from tests.unit.backends.compiled.test_compile_time import calls_of
from tests.unit.buffers.random_code import RandomCode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import (
    Branch,
    Code,
    CopyThunk,
    Jump,
    KernelThunk,
    Label,
    Switch,
    Thunk,
    Value,
    reads,
    writes,
)
from xla_server.buffers.liveness import analyse
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.ir.checkpoints import cancellable

EMPTY = Kernel((), (), ())
WIDE = Shape.parse("f32[64]")


def value(name: str) -> Value:
    return Value(WIDE, name)


def kernel(result: Value, *operands: Value) -> KernelThunk:
    return KernelThunk(
        result.name, EMPTY, 1, 1, (*operands, result), tuple(dict.fromkeys(operands)), (result,)
    )


def lifetimes(code: Code, *values: Value) -> list[list[tuple[int, int]]]:
    found = analyse(code)
    return [list(found.lifetimes[found.numbers[v]]) for v in values]


def live_sets(code: Code) -> tuple[list[set[Value]], list[set[Value]]]:
    """Return the values that are live before and after each thunk, by iteration over sets."""
    labels = {thunk: n for n, thunk in enumerate(code.thunks) if isinstance(thunk, Label)}
    count = len(code.thunks)
    before: list[set[Value]] = [*(set() for _ in code.thunks), set(code.results)]
    after: list[set[Value]] = [set() for _ in code.thunks]
    changed = True
    while changed:
        changed = False
        for n in reversed(range(count)):
            thunk = code.thunks[n]
            following = [n + 1]
            if isinstance(thunk, Jump):
                following = [labels[thunk.label]]
            elif isinstance(thunk, Branch):
                following.append(labels[thunk.otherwise])
            elif isinstance(thunk, Switch):
                following = [labels[label] for label in thunk.labels]
            after[n] = set[Value]().union(*(before[other] for other in following))
            live = (after[n] - {*writes(thunk)}) | {*reads(thunk)}
            changed |= live != before[n]
            before[n] = live
    return before, after


@pytest.mark.parametrize("seed", range(60))
def test_lifetimes_are_where_values_are_live_or_written(seed: int) -> None:
    code = RandomCode(seed).make()
    before, after = live_sets(code)
    points = {v: {-1} for v in (*code.parameters, *code.constants)}
    for n, live in enumerate(before):
        for v in live:
            points.setdefault(v, set()).add(2 * n)
    for n, thunk in enumerate(code.thunks):
        for v in after[n] | {*writes(thunk)}:
            points.setdefault(v, set()).add(2 * n + 1)
        if isinstance(thunk, KernelThunk):
            for v in {*thunk.writes} - {target for target, _ in thunk.in_place}:
                points[v].add(2 * n)
    found = analyse(code)
    assert {
        v: {point for interval in found.lifetimes[number] for point in range(*interval)}
        for v, number in found.numbers.items()
    } == points


@pytest.mark.parametrize("seed", range(20))
def test_a_value_is_live_after_a_thunk_if_a_later_one_needs_it(seed: int) -> None:
    code = RandomCode(seed).make()
    _, after = live_sets(code)
    found = analyse(code)
    for n, thunk in enumerate(code.thunks[:-1]):
        if isinstance(thunk, (CopyThunk, KernelThunk)):
            rewritten = {*writes(code.thunks[n + 1])} if writes(thunk) else set()
            live = {v for v in found.numbers if found.is_live_after(v, n)}
            assert after[n] <= live <= after[n] | rewritten


def test_a_value_may_have_the_memory_of_what_is_done_before_it() -> None:
    x, a, b, c = (value(name) for name in "xabc")
    code = Code([kernel(a, x), kernel(b, a), kernel(c, b)], [x], {}, [c])
    assert lifetimes(code, x, a, b, c) == [[(-1, 1)], [(0, 3)], [(2, 5)], [(4, 7)]]


def test_operands_that_a_kernel_may_not_write_over_are_apart() -> None:
    x, a, b = (value(name) for name in "xab")
    thunk = KernelThunk("k", EMPTY, 1, 1, (x, a, b), (x, a), (b,), ((b, a),))
    found = analyse(Code([thunk], [x, a], {}, [b]))
    n = found.numbers
    assert found.apart == {n[b]: {n[x]}, n[x]: {n[b]}}
    assert list(found.lifetimes[n[b]]) == [(1, 3)]


def test_what_one_branch_reads_is_not_live_in_the_others() -> None:
    p, a, b, c = (value(name) for name in "pabc")
    one, two, end = (Label(name) for name in ("one", "two", "end"))
    thunks: list[Thunk] = [
        kernel(a, p),
        Switch(p, (one, two)),
        one,
        kernel(b, p),
        CopyThunk(c, b),
        Jump(end),
        two,
        CopyThunk(c, a),
        end,
    ]
    found = lifetimes(Code(thunks, [p], {}, [c]), a, c)
    assert found == [[(0, 4), (12, 15)], [(9, 12), (15, 19)]]


def test_the_analysis_of_many_values_can_be_cancelled() -> None:
    checks: list[None] = []
    with cancellable(lambda: checks.append(None)):
        analyse(results(100))
    assert len(checks) >= 100


def results(count: int) -> Code:
    """Kernels of one parameter, all of which are results."""
    x, found = value("x"), [value(f"r{n}") for n in range(count)]
    return Code([kernel(result, x) for result in found], [x], {}, found)


def held_across_loops(count: int) -> Code:
    """Values written before as many loops that do not touch them, and read after them."""
    x = state = value("x")
    held = [value(f"h{n}") for n in range(count)]
    thunks: list[Thunk] = [kernel(v, x) for v in held]
    for _ in range(count):
        new, step, goes_on, begin, end = *map(value, "snp"), Label("begin"), Label("end")
        thunks += [CopyThunk(new, state), begin, kernel(goes_on, new), Branch(goes_on, end)]
        thunks += [kernel(step, new), CopyThunk(new, step), Jump(begin), end]
        state = new
    for v in held:
        thunks.append(kernel(new := value("r"), state, v))
        state = new
    return Code(thunks, [x], {}, [state])


def one_read_in_each_branch(count: int) -> Code:
    """A switch whose branches each read a value of their own and write the same result."""
    x, result, end = value("x"), value("r"), Label("end")
    held = [value(f"h{n}") for n in range(count)]
    labels = [Label(f"l{n}") for n in range(count)]
    thunks: list[Thunk] = [*(kernel(v, x) for v in held), Switch(x, tuple(labels))]
    for label, v in zip(labels, held, strict=True):
        thunks += [label, kernel(new := value("n"), v), CopyThunk(result, new), Jump(end)]
    return Code([*thunks, end], [x], {}, [result])


FORMS = (results, held_across_loops, one_read_in_each_branch)


@pytest.mark.parametrize("program", FORMS)
def test_four_times_the_values_are_about_four_times_the_work(
    program: Callable[[int], Code],
) -> None:
    small, large = (calls_of(functools.partial(analyse, program(count))) for count in (100, 400))
    assert large < 4.8 * small


@pytest.mark.parametrize("program", FORMS)
def test_four_times_the_values_take_about_four_times_the_memory(
    program: Callable[[int], Code],
) -> None:
    peaks = []
    for count in (500, 2000):
        code = program(count)
        tracemalloc.start()
        analyse(code)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 4.8 * peaks[0]
