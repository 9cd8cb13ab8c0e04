import functools
import itertools
from collections.abc import Callable

import pytest

from tests.unit.backends.compiled.test_compile_time import calls_of
from tests.unit.buffers.random_code import RandomCode
from xla_contract.types.shape import Shape
from xla_server.buffers import assignment
from xla_server.buffers.assignment import ALIGNMENT, assign, memory_use
from xla_server.buffers.code import Branch, Code, CopyThunk, Jump, KernelThunk, Label, Thunk, Value
from xla_server.buffers.liveness import analyse
from xla_server.codegen.kernel_ir.kernel import Kernel

EMPTY = Kernel((), (), ())
WIDE = Shape.parse("f32[64]")


def value(name: str, shape: Shape = WIDE) -> Value:
    return Value(shape, name)


def kernel(result: Value, *operands: Value, in_place: bool = False) -> KernelThunk:
    pairs = tuple((result, operand) for operand in operands) if in_place else ()
    arguments = (*operands, result)
    return KernelThunk(result.name, EMPTY, 1, 1, arguments, operands, (result,), pairs)


def places(code: Code, *values: Value) -> list[tuple[str, int]]:
    found = assign(code).locations
    return [(found[v].kind, found[v].number) for v in values]


def test_values_that_are_needed_together_do_not_share_memory() -> None:
    x, a, b, c = (value(name) for name in "xabc")
    thunks: list[Thunk] = [kernel(a, x), kernel(b, x), kernel(c, a, b)]
    code = Code(thunks, [x], {}, [c])
    assert places(code, x, c) == [("parameter", 0), ("result", 0)]
    (kind_a, at_a), (kind_b, at_b) = places(code, a, b)
    assert kind_a == kind_b == "arena"
    assert at_a != at_b
    assert assign(code).arena_bytes == 2 * 256


def test_memory_is_used_again_when_a_value_is_done() -> None:
    x, a, b, c, d = (value(name) for name in "xabcd")
    code = Code([kernel(a, x), kernel(b, a), kernel(c, b), kernel(d, c)], [x], {}, [d])
    assert assign(code).arena_bytes == 2 * 256
    assert places(code, a) == places(code, c)


def spans(code: Code, donated: frozenset[int]) -> dict[Value, tuple[tuple[str, int], int, int]]:
    """Return the memory that each value is in, and begin and end there."""
    found = {}
    for v, location in assign(code, donated).locations.items():
        in_arena = location.kind == "arena"
        memory = (location.kind, 0 if in_arena else location.number)
        begin = location.number if in_arena else 0
        found[v] = memory, begin, begin + v.byte_size
    return found


@pytest.mark.parametrize("seed", range(60))
def test_values_that_live_at_the_same_time_have_memory_of_their_own(seed: int) -> None:
    code = RandomCode(seed).make()
    liveness = analyse(code)
    for donated in (frozenset[int](), frozenset(range(len(code.parameters)))):
        found = spans(code, donated)
        for a, b in itertools.combinations(liveness.numbers, 2):
            (memory, begin, end), (other, other_begin, other_end) = found[a], found[b]
            if memory != other or begin >= other_end or other_begin >= end:
                continue
            n, other_n = liveness.numbers[a], liveness.numbers[b]
            assert other_n not in liveness.apart.get(n, ())
            lifetime = liveness.lifetimes[n]
            assert not any(lifetime.overlaps(*part) for part in liveness.lifetimes[other_n])
        for thunk in code.thunks:
            if isinstance(thunk, CopyThunk):
                memory, begin, end = found[thunk.target]
                other, other_begin, other_end = found[thunk.source]
                is_apart = memory != other or begin >= other_end or other_begin >= end
                assert is_apart or begin == other_begin


def kept(count: int) -> Code:
    """Values of many sizes that are all needed at the same time, as layers are for gradients."""
    x = last = value("x")
    layers = [value(f"l{n}", Shape.parse(f"f32[{16 * (7 * n % 40 + 1)}]")) for n in range(count)]
    thunks: list[Thunk] = [kernel(v, of) for v, of in zip(layers, [x, *layers], strict=False)]
    for v in reversed(layers):
        thunks.append(kernel(gradient := value("g"), last, v))
        last = gradient
    return Code(thunks, [x], {}, [last])


def read_at_the_end(count: int) -> Code:
    """Parameters that are read last, so that none of as many results may overwrite one."""
    given, results = ([value(f"{name}{n}") for n in range(count)] for name in "pr")
    last = KernelThunk("read", EMPTY, 1, 1, (*given,), (*given,), ())
    return Code([*(kernel(v, given[0]) for v in results), last], given, {}, results)


@pytest.mark.parametrize("program", [kept, read_at_the_end])
def test_four_times_the_values_are_about_four_times_the_work(
    program: Callable[[int], Code],
) -> None:
    codes = [program(count) for count in (200, 800)]
    calls = [
        calls_of(functools.partial(assign, code, frozenset(range(len(code.parameters)))))
        for code in codes
    ]
    assert calls[1] < 5.5 * calls[0]


def test_a_kernel_writes_over_an_operand_only_where_it_says_that_it_may() -> None:
    x, a, b, c = (value(name) for name in "xabc")
    apart = Code([kernel(a, x), kernel(b, a), kernel(c, b)], [x], {}, [c])
    assert places(apart, a) != places(apart, b)
    together = Code(
        [kernel(a, x), kernel(b, a, in_place=True), kernel(c, b, in_place=True)], [x], {}, [c]
    )
    assert places(together, a) == places(together, b) == places(together, c)
    assert assign(together).arena_bytes == 0


@pytest.mark.parametrize("size", [64, 80])
def test_a_result_that_does_not_begin_where_its_operand_does_is_apart_from_it(size: int) -> None:
    x, a, b, d = (value(name) for name in "xabd")
    c = value("c", Shape.parse(f"f32[{size}]"))
    thunks: list[Thunk] = [kernel(a, x), kernel(b, x, a), kernel(c, b, in_place=True), kernel(d, c)]
    (_, at_b), (_, at_c) = places(Code(thunks, [x], {}, [d]), b, c)
    is_over = size == 64
    assert (at_b == at_c) is is_over
    assert is_over or at_b + b.byte_size <= at_c or at_c + c.byte_size <= at_b


def test_a_copy_is_nothing_when_the_source_is_not_needed_any_more() -> None:
    x, a, b = (value(name) for name in "xab")
    gone = Code([kernel(a, x), CopyThunk(b, a)], [x], {}, [b])
    assert places(gone, a) == places(gone, b)
    needed = Code([kernel(a, x), CopyThunk(b, a)], [x], {}, [b, a])
    assert places(needed, a) != places(needed, b)


def test_parameters_are_never_written_over() -> None:
    x, a = value("x"), value("a")
    code = Code([CopyThunk(a, x), kernel(a, a, in_place=True)], [x], {}, [a])
    assert places(code, x, a) == [("parameter", 0), ("result", 0)]


def test_what_a_loop_reads_stays_until_the_loop_ends() -> None:
    x, kept, state, goes_on, step = (value(name) for name in ("x", "kept", "s", "go", "step"))
    begin, end = Label("begin"), Label("end")
    thunks: list[Thunk] = [
        kernel(kept, x),
        CopyThunk(state, x),
        begin,
        kernel(goes_on, state),
        Branch(goes_on, end),
        kernel(step, state, kept),
        CopyThunk(state, step),
        Jump(begin),
        end,
    ]
    found = assign(Code(thunks, [x], {}, [state])).locations
    others = {found[v] for v in (state, goes_on, step)}
    assert found[kept] not in others


def test_offsets_are_aligned() -> None:
    odd = Shape.parse("u8[3]")
    x, a, b, c = value("x", odd), value("a", odd), value("b", odd), value("c", odd)
    code = Code([kernel(a, x), kernel(b, x), kernel(c, a, b)], [x], {}, [c])
    assert {at % ALIGNMENT for _, at in places(code, a, b)} == {0}


def test_a_donated_parameter_is_written_over_when_it_is_not_needed_any_more() -> None:
    x, a, b = value("x"), value("a"), value("b")
    code = Code([kernel(a, x), kernel(b, a)], [x], {}, [b])
    found = assign(code, frozenset([0]))
    assert found.results == (found.locations[x],)
    assert found.locations[a] != found.locations[x]
    assert assign(code).results[0].kind == "result"


def test_a_donated_parameter_that_is_read_while_the_result_is_written_is_kept() -> None:
    x, a = value("x"), value("a")
    code = Code([kernel(a, x)], [x], {}, [a])
    assert assign(code, frozenset([0])).results[0].kind == "result"
    together = Code([kernel(a, x, in_place=True)], [x], {}, [a])
    assert assign(together, frozenset([0])).results[0].kind == "parameter"


def test_two_results_do_not_take_one_donated_parameter() -> None:
    x, a, b = value("x"), value("a"), value("b")
    thunks: list[Thunk] = [kernel(a, x, in_place=True), kernel(b, a)]
    found = assign(Code(thunks, [x], {}, [a, b]), frozenset([0]))
    assert sorted(place.kind for place in found.results) == ["parameter", "result"]


def test_many_donated_parameters_are_not_tried_for_every_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step of training gives up hundreds, all of which may be of one shape."""
    tried = []
    join = assignment._Groups.join

    def counted(groups: assignment._Groups, a: int, b: int) -> bool:
        tried.append((a, b))
        return join(groups, a, b)

    monkeypatch.setattr(assignment._Groups, "join", counted)
    parameters, results = ([value(f"{name}{n}") for n in range(50)] for name in "pr")
    pairs = zip(results, parameters, strict=True)
    together = [kernel(result, parameter, in_place=True) for result, parameter in pairs]
    found = assign(Code([*together], parameters, {}, results), frozenset(range(50)))
    assert [place.kind for place in found.results] == ["parameter"] * 50
    assert len(tried) == 50
    tried.clear()
    all_read = KernelThunk("read", EMPTY, 1, 1, (*parameters,), (*parameters,), ())
    thunks: list[Thunk] = [all_read, *(kernel(result) for result in results)]
    found = assign(Code(thunks, parameters, {}, results), frozenset(range(50)))
    assert {place.number for place in found.results} == set(range(50))
    assert len(tried) == 50


def test_results_take_the_donated_parameters_that_are_done_before_they_are_written() -> None:
    """The last one of these, which leaves the others to results that are written earlier."""
    x, y, a, b, c = (value(name) for name in "xyabc")
    thunks: list[Thunk] = [kernel(a, x), kernel(b, y), kernel(c, a)]
    found = assign(Code(thunks, [x, y], {}, [c, b, a]), frozenset([0, 1]))
    assert [found.locations[v].number for v in (c, b)] == [1, 0]
    assert [place.kind for place in found.results] == ["parameter", "parameter", "result"]


def test_the_memory_of_a_run_is_known_before_it() -> None:
    x, a, b, c = (value(name) for name in "xabc")
    constant = value("k", Shape.parse("f32[16]"))
    code = Code([kernel(a, x, constant), kernel(b, a), kernel(c, b)], [x], {constant: None}, [c, x])
    use = memory_use(code, assign(code))
    assert (use.parameters, use.constants, use.results, use.arena) == (256, 64, 256, 512)
    assert use.peak == 256 + 64 + 256 + 512
