"""Loops of two iterations: which loops become one, and that they do what the loop did."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.buffers.random_code import RandomCode
from tests.unit.buffers.test_assignment import kernel, value
from tests.unit.codegen.compiled import interpreted, on_cpu
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import (
    Branch,
    Code,
    CopyThunk,
    HostThunk,
    Jump,
    KernelThunk,
    Label,
    Switch,
    Thunk,
    Value,
)
from xla_server.buffers.double_buffers import with_double_buffers
from xla_server.buffers.slots import copies_nothing
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.target.loop_tuning import DoubleBuffers

EAGER = DoubleBuffers(min_copied_bytes=1, max_added_bytes=1 << 30)

A, B, STATE = map(value, ("a", "b", "state"))
MAX_BRANCHES = 60
"""Branches after which an execution takes none, so that loops end."""


class _Execution:
    """Executes code whose kernels return what they read; `memory` has a value for each location.

    An operand that its kernel overwrites reads as None, unless the kernel of that name in
    `original` may do so.
    """

    def __init__(
        self, code: Code, location: Callable[[Value], Hashable], original: Code | None = None
    ) -> None:
        self._code, self._location = code, location
        self._in_place = {each.name: _in_place(each) for each in _kernels(original or code)}
        self.memory: dict[Hashable, int] = {}
        self.branches = 0
        for n, given in enumerate((*code.parameters, *code.constants)):
            self.memory[location(given)] = n

    def results(self) -> list[int]:
        """Execute the code and return the results."""
        thunks = self._code.thunks
        labels = {thunk: n for n, thunk in enumerate(thunks) if isinstance(thunk, Label)}
        at = 0
        while at < len(thunks):
            label = self._step(thunks[at])
            at = at + 1 if label is None else labels[label]
        return self._read(self._code.results)

    def _read(self, values: Sequence[Value]) -> list[int]:
        return [self.memory[self._location(value)] for value in values]

    def _operands(self, thunk: KernelThunk) -> list[int | None]:
        allowed = self._in_place[thunk.name]
        places = [*map(self._location, thunk.writes)]
        return [
            None
            if any(at == place and (n, m) not in allowed for n, place in enumerate(places))
            else self.memory[at]
            for m, at in enumerate(map(self._location, thunk.reads))
        ]

    def _step(self, thunk: Thunk) -> Label | None:
        match thunk:
            case KernelThunk():
                read = [*self._operands(thunk), *self._read(thunk.updates)]
                for n, written in enumerate(thunk.writes):
                    self.memory[self._location(written)] = hash((thunk.name, n, *read))
            case CopyThunk(target, source):
                self.memory[self._location(target)] = self.memory[self._location(source)]
            case Jump(label):
                return label
            case Branch(predicate, otherwise):
                self.branches += 1
                chance = hash((*self._read([predicate]), self.branches))
                return None if chance % 4 and self.branches < MAX_BRANCHES else otherwise
            case Switch(index, chosen):
                return chosen[hash((*self._read([index]), self.branches)) % len(chosen)]
        return None


def _in_place(thunk: KernelThunk) -> set[tuple[int, int]]:
    """Return the numbers of results, and of operands that each of them may overwrite."""
    return {(thunk.writes.index(a), thunk.reads.index(b)) for a, b in thunk.in_place}


def _results(code: Code, original: Code | None = None) -> list[int]:
    """Return the results that code has in the memory that its values are assigned."""
    places = assign(code).locations
    # Values of no bytes may be where others are.
    return _Execution(code, lambda v: places[v] if v.byte_size else v, original).results()


def _loop(
    *, in_place: bool = False, more: Sequence[Thunk] = (), last: Sequence[Thunk] = ()
) -> Code:
    """Return a loop whose state a kernel computes anew, over the old one if `in_place`.

    `more` are thunks of the body, `last` copies at its end.
    """
    x, following, goes_on = map(value, ("x", "following", "goes_on"))
    state = STATE
    begin, end = Label("begin"), Label("end")
    thunks: list[Thunk] = [
        *(CopyThunk(state, x), begin, kernel(goes_on, state), Branch(goes_on, end), *more),
        *(kernel(following, state, in_place=in_place), CopyThunk(state, following)),
        *(*last, Jump(begin), end),
    ]
    return Code(thunks, [x], {}, [state])


def _kernels(code: Code) -> list[KernelThunk]:
    return [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk)]


def _copied_each_time(code: Code) -> list[CopyThunk]:
    """Return the copies of a loop, up to its jump back, that move bytes."""
    found = assign(code)
    first = next(n for n, each in enumerate(code.thunks) if isinstance(each, Label))
    back = next(n for n, each in enumerate(code.thunks) if isinstance(each, Jump))
    inside = [each for each in code.thunks[first:back] if isinstance(each, CopyThunk)]
    return [each for each in inside if not copies_nothing(each, found)]


def _changed(code: Code, tuned: DoubleBuffers = EAGER) -> Code:
    return with_double_buffers(code, assign(code), tuned)[0]


def test_the_second_iteration_writes_the_state_where_the_first_read_it() -> None:
    code = _loop()
    changed = _changed(code)
    found = assign(changed)
    one, two = (
        [found.locations[v] for each in kernels[1::2] for v in (*each.reads, *each.writes)]
        for kernels in (_kernels(changed)[:2], _kernels(changed)[2:])
    )
    assert one == two[::-1]
    assert not _copied_each_time(changed)
    assert _results(changed, code) == _results(code)


def test_states_that_change_places_are_not_copied() -> None:
    """In a leapfrog, the old state becomes the older one."""
    x, y, older, old, new, goes_on = map(value, ("x", "y", "older", "old", "new", "goes_on"))
    begin, end = Label("begin"), Label("end")
    step = dataclasses.replace(kernel(new, old, older), in_place=((new, older),))
    thunks: list[Thunk] = [
        *(CopyThunk(older, x), CopyThunk(old, y), begin, kernel(goes_on, old)),
        *(Branch(goes_on, end), step, CopyThunk(older, old)),
        *(CopyThunk(old, new), Jump(begin), end),
    ]
    code = Code(thunks, [x, y], {}, [older, old])
    assert len(_copied_each_time(code)) == 2
    changed = _changed(code)
    assert not _copied_each_time(changed)
    assert _results(changed, code) == _results(code)


def test_states_with_the_same_next_value_are_not_overwritten_for_one_of_them() -> None:
    """The kernel may write over `A` but not over `B`, which the second iteration reads as one."""
    x, new, goes_on = map(value, ("x", "new", "goes_on"))
    begin, end = Label("begin"), Label("end")
    step = dataclasses.replace(kernel(new, A, B), in_place=((new, A),))
    thunks: list[Thunk] = [
        *(CopyThunk(A, x), CopyThunk(B, x), begin, kernel(goes_on, A), Branch(goes_on, end)),
        *(step, CopyThunk(B, new), CopyThunk(A, new), Jump(begin), end),
    ]
    code = Code(thunks, [x], {}, [A])
    changed = _changed(code)
    *_, second = _kernels(changed)
    locations = assign(changed).locations
    assert second.reads == (new, new)
    assert locations[second.writes[0]] != locations[new]
    assert _results(changed, code) == _results(code)


def test_what_a_cycle_of_the_state_saves_is_none_of_it() -> None:
    x, saved, goes_on = map(value, ("x", "saved", "goes_on"))
    begin, end = Label("begin"), Label("end")
    thunks: list[Thunk] = [
        *(CopyThunk(A, x), kernel(B, x), begin, kernel(goes_on, A), Branch(goes_on, end)),
        *(CopyThunk(saved, A), CopyThunk(A, B), CopyThunk(B, saved), Jump(begin), end),
    ]
    code = Code(thunks, [x], {}, [A, B])
    assert len(_copied_each_time(code)) == 3
    changed = _changed(code)
    assert not _copied_each_time(changed)
    assert _results(changed, code) == _results(code)


@pytest.mark.parametrize("seed", range(100))
def test_random_code_has_the_same_results(seed: int) -> None:
    code = RandomCode(seed).make()
    changed = _changed(code)
    assert _results(changed, code) == _results(code)
    kernels = len(_kernels(code))
    assert len(_kernels(changed)) <= 2 * kernels


def test_random_code_has_loops_of_both_kinds() -> None:
    changed = sum(_changed(code) is not code for code in (RandomCode(n).make() for n in range(100)))
    assert 10 < changed < 90


@pytest.mark.parametrize(
    ("code", "tuned"),
    [
        pytest.param(_loop(in_place=True), EAGER, id="nothing is copied"),
        pytest.param(_loop(more=[HostThunk("feed", None, (), ())]), EAGER, id="calls of the host"),
        pytest.param(
            _loop(more=[kernel(B, STATE), kernel(A, B)], last=[CopyThunk(B, A)]),
            EAGER,
            id="a kernel writes the state",
        ),
        pytest.param(
            _loop(more=[kernel(A, B), kernel(B, A)]),
            EAGER,
            id="a value is read before it is written",
        ),
        pytest.param(_loop(), DoubleBuffers(min_copied_bytes=65), id="few bytes for each thunk"),
        pytest.param(
            _loop(), DoubleBuffers(1, max_added_bytes=0, max_added_share=1 << 30), id="memory"
        ),
    ],
)
def test_other_loops_stay(code: Code, tuned: DoubleBuffers) -> None:
    assert _changed(code, tuned) is code


def _reversals(limit: int) -> HloModule:
    """Return a loop that reverses an array and subtracts the array before that."""
    return parse_module(f"""HloModule m
body {{ s = (s32[], f32[3000], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3000] get-tuple-element(s), index=1
  y = f32[3000] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[3000] reverse(x), dimensions={{0}}
  sum = f32[3000] subtract(r, y)
  ROOT t = (s32[], f32[3000], f32[3000]) tuple(j, sum, x) }}
test {{ s = (s32[], f32[3000], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant({limit})
  ROOT l = pred[] compare(i, limit), direction=LT }}
ENTRY e {{ n = s32[] parameter(0)
  x = f32[3000] parameter(1)
  y = f32[3000] parameter(2)
  s = (s32[], f32[3000], f32[3000]) tuple(n, x, y)
  w = (s32[], f32[3000], f32[3000]) while(s), condition=test, body=body
  a = f32[3000] get-tuple-element(w), index=1
  b = f32[3000] get-tuple-element(w), index=2
  ROOT t = (f32[3000], f32[3000]) tuple(a, b) }}""")


@pytest.mark.parametrize("begin", range(6))
def test_states_may_have_the_same_next_value(begin: int) -> None:
    module = parse_module("""HloModule m
body { s = (s32[], f32[3000], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3000] get-tuple-element(s), index=1
  y = f32[3000] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[3000] reverse(x), dimensions={0}
  d = f32[3000] subtract(y, r)
  ROOT t = (s32[], f32[3000], f32[3000]) tuple(j, d, d) }
test { s = (s32[], f32[3000], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)
  ROOT l = pred[] compare(i, limit), direction=LT }
ENTRY e { n = s32[] parameter(0)
  x = f32[3000] parameter(1)
  y = f32[3000] parameter(2)
  s = (s32[], f32[3000], f32[3000]) tuple(n, x, y)
  w = (s32[], f32[3000], f32[3000]) while(s), condition=test, body=body
  ROOT a = f32[3000] get-tuple-element(w), index=2 }""")
    arrays = [np.arange(n, n + 3000, dtype=np.float32) for n in (1, 7)]
    arguments = [np.int32(begin), *arrays]
    np.testing.assert_array_equal(on_cpu(module, arguments), interpreted(module, arguments))


@pytest.mark.parametrize("begin", range(6))
def test_any_number_of_iterations_has_its_results(begin: int) -> None:
    module = _reversals(5)
    code = compile_module(module, target=TARGET).code
    (while_,) = (each for each in module.entry.instructions if each.opcode is Opcode.WHILE)
    odd = [thunk for thunk in code.thunks if isinstance(thunk, Label) and "odd" in thunk.name]
    assert [code.origins[thunk].name for thunk in odd] == [while_.name]
    arrays = [np.arange(n, n + 3000, dtype=np.float32) for n in (1, 7)]
    arguments = [np.int32(begin), *arrays]
    np.testing.assert_array_equal(on_cpu(module, arguments), interpreted(module, arguments))
