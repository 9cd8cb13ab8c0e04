"""Order in which arrays are updated without a copy."""

import random

import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import copied_bytes
from tests.unit.passes.passing import assert_kept, passed, rewritten
from xla_server.buffers.assignment import assign
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.scheduling.in_place_order import InPlaceOrder

LOOP = """HloModule m

body {{
  state = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  a = f32[100] get-tuple-element(state), index=1
  b = f32[100] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  {lines}
  ROOT new = (s32[], f32[100], f32[100]) tuple(next, c, d)
}}

condition {{
  state.1 = (s32[], f32[100], f32[100]) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}}

ENTRY main {{
  x = f32[100] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[100], f32[100]) tuple(zero, x, x)
  ROOT loop = (s32[], f32[100], f32[100]) while(begin), condition=condition, body=body
}}
"""


def loop(*lines: str) -> HloModule:
    """A loop over (i, a, b) whose body is lines that define c and d, the next a and b."""
    return parse_module(LOOP.format(lines="\n  ".join(lines)))


def entry(*lines: str, before: str = "") -> HloModule:
    """A program of p, q f32[100], u f32[2], i s32[], of which a and b are copies."""
    text = "\n  ".join(lines)
    return parse_module(f"""HloModule m
{before}
ENTRY main {{
  p = f32[100] parameter(0)
  q = f32[100] parameter(1)
  u = f32[2] parameter(2)
  i = s32[] parameter(3)
  a = f32[100] negate(p)
  b = f32[100] negate(q)
  {text}
}}
""")


def order(module: HloModule, *names: str, inside: str = "main") -> list[str]:
    """The names in the order of their instructions."""
    (found,) = [part for part in module.computations if part.name.split(".")[0] == inside]
    instructions = [part.name.split(".")[0] for part in found.instructions]
    return sorted(names, key=instructions.index)


def bytes_of(module: HloModule) -> tuple[int, int]:
    """The bytes that a module copies as it is ordered, and those of its arena."""
    code = lower(module, LOWERINGS, TARGET)
    assignment = assign(code)
    return copied_bytes(code, assignment), assignment.arena_bytes


def assert_stays(module: HloModule) -> None:
    before = [i.name for part in module.computations for i in part.instructions]
    after = passed(module, InPlaceOrder(), fires=False)
    assert [i.name for part in after.computations for i in part.instructions] == before


READ_LATE = (
    "d = f32[100] dynamic-update-slice(a, u, i)",
    "r = f32[100] exponential(a)",
    "ROOT t = (f32[100], f32[100]) tuple(d, r)",
)


def test_readers_come_before_a_dynamic_update_slice() -> None:
    module = entry(*READ_LATE)
    assert bytes_of(module)[0] == 400
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "r") == ["r", "d"]
    assert bytes_of(after)[0] == 0
    assert_stays(after)


def test_what_reads_the_result_moves_with_its_writer_and_nothing_else_does() -> None:
    module = entry(
        "d = f32[100] dynamic-update-slice(a, u, i)",
        "e = f32[100] negate(d)",
        "n = f32[100] negate(b)",
        "r = f32[100] exponential(a)",
        "o = f32[100] cosine(b)",
        "ROOT t = (f32[100], f32[100], f32[100], f32[100]) tuple(e, n, r, o)",
    )
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "e", "n", "r", "o") == ["n", "r", "d", "e", "o"]


def test_readers_of_an_alias_read_the_array() -> None:
    module = entry(
        "d = f32[100] dynamic-update-slice(a, u, i)",
        "s = f32[10,10] reshape(a)",
        "g = (f32[10,10], f32[100]) tuple(s, b)",
        "e = f32[10,10] get-tuple-element(g), index=0",
        "r = f32[10,10] exponential(e)",
        "ROOT t = (f32[100], f32[10,10]) tuple(d, r)",
    )
    assert order(rewritten(module, InPlaceOrder()), "d", "r") == ["r", "d"]


def test_a_chain_of_updates_takes_turns_with_readers_of_each_version() -> None:
    lines = ["d0 = f32[100] dynamic-update-slice(a, u, i)"]
    lines += [f"d{n} = f32[100] dynamic-update-slice(d{n - 1}, u, i)" for n in range(1, 12)]
    lines += [f"r{n} = f32[2] slice(d{n}), slice={{[{n}:{n + 2}]}}" for n in range(12)]
    lines += ["o0 = f32[2] negate(r0)"]
    lines += [f"o{n} = f32[2] add(o{n - 1}, r{n})" for n in range(1, 12)]
    module = entry(*lines, "ROOT t = (f32[100], f32[2]) tuple(d11, o11)")
    assert bytes_of(module)[0] == 11 * 400
    after = rewritten(module, InPlaceOrder())
    assert bytes_of(after)[0] == 0
    assert bytes_of(after)[1] < bytes_of(module)[1]


SCATTERED = """
last { x = f32[] parameter(0)
  ROOT y = f32[] parameter(1) }
"""


def test_readers_come_before_a_scatter() -> None:
    module = entry(
        "j = s32[2,1] broadcast(i), dimensions={}",
        "d = f32[100] scatter(a, j, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=last",
        "r = f32[100] exponential(a)",
        "ROOT t = (f32[100], f32[100]) tuple(d, r)",
        before=SCATTERED,
    )
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "r") == ["r", "d"]
    assert (bytes_of(module)[0], bytes_of(after)[0]) == (400, 0)


def test_readers_come_before_a_while_that_changes_the_array() -> None:
    text = LOOP.format(lines="c = f32[100] cosine(a)\n  d = f32[100] reshape(b)")
    head, _, _ = text.partition("ENTRY")
    module = parse_module(f"""{head}ENTRY main {{
  x = f32[100] parameter(0)
  v = f32[100] negate(x)
  zero = s32[] constant(0)
  begin = (s32[], f32[100], f32[100]) tuple(zero, v, x)
  loop = (s32[], f32[100], f32[100]) while(begin), condition=condition, body=body
  r = f32[100] exponential(v)
  e = f32[100] get-tuple-element(loop), index=1
  ROOT t = (f32[100], f32[100]) tuple(e, r)
}}
""")
    after = rewritten(module, InPlaceOrder())
    assert order(after, "loop", "r") == ["r", "loop"]
    assert bytes_of(module)[0] - bytes_of(after)[0] == 400


BRANCHES = """
change { x = f32[100] parameter(0)
  l = s32[] constant(1)
  h = f32[2] slice(x), slice={[0:2]}
  d = f32[100] dynamic-update-slice(x, h, l)
  r = f32[100] sine(x)
  m = f32[100] multiply(r, r)
  y = f32[100] add(d, m) }
keep { ROOT x = f32[100] parameter(0) }
"""


CALLS = (
    ("conditional(z, a, a), true_computation=change, false_computation=keep", 800),
    ("call(a), to_apply=change", 400),
)


@pytest.mark.parametrize(("call", "copied"), CALLS)
def test_called_computations_are_ordered_and_readers_come_first(call: str, copied: int) -> None:
    module = entry(
        "z = pred[] constant(true)",
        f"d = f32[100] {call}",
        "r = f32[100] exponential(a)",
        "ROOT t = (f32[100], f32[100]) tuple(d, r)",
        before=BRANCHES.replace("  y =", "  ROOT y ="),
    )
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "r") == ["r", "d"]
    assert order(after, "d", "r", inside="change") == ["r", "d"]
    assert (bytes_of(module)[0], bytes_of(after)[0]) == (copied, 0)


def test_the_next_state_of_a_loop_is_computed_after_readers_of_the_old_one() -> None:
    module = loop("c = f32[100] negate(a)", "d = f32[100] add(a, b)")
    after = rewritten(module, InPlaceOrder())
    assert order(after, "c", "d", inside="body") == ["d", "c"]
    assert bytes_of(after)[1] < 400 <= bytes_of(module)[1]
    assert_stays(after)


def test_a_counter_is_increased_after_its_readers() -> None:
    module = loop(
        "f = f32[] convert(i)",
        "w = f32[100] broadcast(f), dimensions={}",
        "c = f32[100] add(a, w)",
        "d = f32[100] negate(b)",
    )
    after = passed(module, InPlaceOrder())
    assert order(after, "next", "f", inside="body") == ["f", "next"]


def test_readers_of_a_loop_state_come_before_the_first_update_of_it() -> None:
    module = loop(
        "u = f32[2] slice(b), slice={[0:2]}",
        "e = f32[100] dynamic-update-slice(a, u, i)",
        "c = f32[100] dynamic-update-slice(e, u, next)",
        "r = f32[2] slice(a), slice={[5:7]}",
        "d = f32[100] dynamic-update-slice(b, r, i)",
    )
    assert order(rewritten(module, InPlaceOrder()), "e", "r", inside="body") == ["r", "e"]


def test_the_order_of_a_body_stays_where_states_need_each_other() -> None:
    assert_stays(loop("c = f32[100] negate(a)", "d = f32[100] add(a, c)"))


@pytest.mark.parametrize(
    "lines",
    [
        ("d = f32[100] dynamic-update-slice(a, u, i)", "ROOT r = f32[100] add(a, d)"),
        (
            "d = f32[100] dynamic-update-slice(a, u, i)",
            "r = f32[100] negate(a)",
            "ROOT t = (f32[100], f32[100], f32[100]) tuple(d, a, r)",
        ),
        (
            "c = f32[2] constant({1, 2})",
            "d = f32[2] dynamic-update-slice(c, u, i)",
            "r = f32[2] negate(c)",
            "ROOT t = (f32[2], f32[2]) tuple(d, r)",
        ),
        (
            "d = f32[100] dynamic-update-slice(a, u, i)",
            "r = f32[100] negate(b)",
            "ROOT t = (f32[100], f32[100]) tuple(d, r)",
        ),
        (
            "d = f32[100] dynamic-update-slice(a, u, i)",
            "r = f32[100] negate(a), control-predecessors={d}",
            "ROOT t = (f32[100], f32[100]) tuple(d, r)",
        ),
    ],
    ids=["reader-needs-writer", "result", "constant", "no-reader", "control"],
)
def test_the_order_stays_where_a_copy_is_needed_or_there_is_none(lines: tuple[str, ...]) -> None:
    assert_stays(entry(*lines))


def test_one_of_two_writers_of_an_array_copies_it() -> None:
    module = entry(
        "d = f32[100] dynamic-update-slice(a, u, i)",
        "e = f32[100] dynamic-update-slice(a, u, i)",
        "r = f32[100] exponential(a)",
        "ROOT t = (f32[100], f32[100], f32[100]) tuple(d, e, r)",
    )
    assert bytes_of(module)[0] == 800
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "e", "r") == ["d", "r", "e"]
    assert bytes_of(after)[0] == 400


@pytest.mark.parametrize("count", [50, 200])
def test_of_overwrites_that_exclude_each_other_the_smaller_is_copied(count: int) -> None:
    module = entry(
        "w = f32[] constant(0)",
        f"v = f32[{count}] pad(u, w), padding=0_{count - 2}",
        f"c = f32[{count}] negate(v)",
        "d = f32[100] dynamic-update-slice(a, u, i)",
        f"e = f32[{count}] dynamic-update-slice(c, u, i)",
        "h = f32[1] slice(e), slice={[3:4]}",
        "k = f32[1] slice(d), slice={[3:4]}",
        "x = f32[100] pad(h, w), padding=50_49",
        "r = f32[100] multiply(x, a)",
        f"y = f32[{count}] pad(k, w), padding=20_{count - 21}",
        f"s = f32[{count}] multiply(y, c)",
        f"ROOT t = (f32[100], f32[{count}]) tuple(r, s)",
    )
    assert bytes_of(module)[0] == 400 + 4 * count
    after = rewritten(module, InPlaceOrder())
    assert bytes_of(after)[0] == min(400, 4 * count)
    assert order(after, "d", "r") == (["r", "d"] if count < 100 else ["d", "r"])
    assert order(after, "e", "s") == (["e", "s"] if count < 100 else ["s", "e"])


def test_a_parameter_is_copied_rather_than_what_the_program_may_overwrite() -> None:
    module = entry(
        "c = f32[50] slice(b), slice={[0:50]}",
        "w = f32[] constant(0)",
        "d = f32[100] dynamic-update-slice(p, u, i)",
        "e = f32[50] dynamic-update-slice(c, u, i)",
        "h = f32[1] slice(e), slice={[3:4]}",
        "k = f32[1] slice(d), slice={[3:4]}",
        "x = f32[100] pad(h, w), padding=50_49",
        "r = f32[100] multiply(x, p)",
        "y = f32[50] pad(k, w), padding=20_29",
        "s = f32[50] multiply(y, c)",
        "ROOT t = (f32[100], f32[50]) tuple(r, s)",
    )
    after = rewritten(module, InPlaceOrder())
    assert order(after, "d", "e", "r", "s") == ["d", "s", "e", "r"]
    assert (bytes_of(module)[0], bytes_of(after)[0]) == (600, 400)


EFFECTS = """
inner { x = f32[100] parameter(0)
  z = u64[2] rng-get-and-update-state(), delta=4
  ROOT y = f32[100] negate(x) }
"""
EFFECT_LINES = (
    "t0 = token[] after-all()",
    "in0 = (f32[100], token[]) infeed(t0)",
    "f = f32[100] get-tuple-element(in0), index=0",
    "d = f32[100] dynamic-update-slice(f, u, i)",
    "zero = f32[] constant(0)",
    "g = f32[100] rng(zero, zero), distribution=rng_uniform",
    "n = u64[2] rng-get-and-update-state(), delta=4",
    "c = f32[100] call(b), to_apply=inner",
    'm = f32[100] custom-call(b), custom_call_target="f", custom_call_has_side_effect=true',
    "t1 = token[] after-all()",
    "got1 = (f32[100], u32[], token[]) recv(t1), channel_id=1",
    "got2 = (f32[100], token[]) recv-done(got1), channel_id=1",
    "out1 = (f32[100], u32[], token[]) send(b, t1), channel_id=2",
    "out2 = token[] send-done(out1), channel_id=2",
    "in1 = (f32[100], token[]) infeed(t1)",
    "h = f32[100] get-tuple-element(in1), index=0",
    "r = f32[100] add(f, h)",
    "o1 = token[] outfeed({}, t1), outfeed_shape=f32[100]{{0}}",
    "in2 = (f32[100], token[]) infeed(t0)",
    "j = f32[100] get-tuple-element(in2), index=0",
    "k = f32[100] subtract(f, j)",
    "ROOT t = (f32[100], f32[100], f32[100]) tuple(d, k, r)",
)
EFFECT_NAMES = ("in0", "g", "n", "c", "m", "got1", "got2", "out1", "out2", "in1", "o1", "in2")


def test_side_effects_keep_their_order_where_others_move() -> None:
    module = entry(*(line.format("r") for line in EFFECT_LINES), before=EFFECTS)
    after = passed(module, InPlaceOrder())
    assert order(after, *EFFECT_NAMES) == list(EFFECT_NAMES)
    assert order(after, "d", "k", "r", "in2") == ["r", "in2", "k", "d"]


def test_a_reader_after_a_side_effect_of_the_new_value_stays_there() -> None:
    # The outfeed sends what is written, and an infeed behind it gives what a reader needs.
    assert_stays(entry(*(line.format("d") for line in EFFECT_LINES), before=EFFECTS))


LONG_LIVED = (
    "c = f32[50] slice(b), slice={[0:50]}",
    "d = f32[50] dynamic-update-slice(c, u, i)",
    "h = f32[1] slice(d), slice={[3:4]}",
    "w = f32[] reshape(h)",
    "v = f32[4000] broadcast(w), dimensions={}",
    "x = f32[4000] negate(v)",
    "l = f32[1] slice(x), slice={[7:8]}",
    "y = f32[2000] broadcast(w), dimensions={}",
    "zero = f32[] constant(0)",
    "k = f32[2000] pad(c, zero), padding=1950_0",
    "m = f32[2000] add(k, y)",
)
"""Before d, the result of k would be live together with v and x."""


def test_an_array_is_copied_where_the_result_of_a_reader_would_live_longer() -> None:
    assert_stays(entry(*LONG_LIVED, "ROOT t = (f32[1], f32[2000]) tuple(l, m)"))


def test_the_growth_of_memory_is_bounded_by_a_share_of_it_also_where_more_is_saved() -> None:
    assert_stays(
        entry(
            "d = f32[100] dynamic-update-slice(a, u, i)",
            "h = f32[1] slice(d), slice={[3:4]}",
            "w = f32[] reshape(h)",
            "v = f32[260] broadcast(w), dimensions={}",
            "x = f32[260] negate(v)",
            "l = f32[1] slice(x), slice={[7:8]}",
            "y = f32[190] broadcast(w), dimensions={}",
            "zero = f32[] constant(0)",
            # Live 360 bytes longer than the array: less than its 400, more than an eighth of 2480.
            "k = f32[190] pad(a, zero), padding=90_0",
            "m = f32[190] add(k, y)",
            "ROOT t = (f32[1], f32[190]) tuple(l, m)",
        )
    )


def test_only_the_smaller_arrays_are_copied_to_save_memory() -> None:
    module = entry(
        "e = f32[100] dynamic-update-slice(a, u, i)",
        *LONG_LIVED,
        "r = f32[100] exponential(a)",
        "ROOT t = (f32[1], f32[2000], f32[100], f32[100]) tuple(l, m, e, r)",
    )
    assert order(rewritten(module, InPlaceOrder()), "r", "e", "d", "k") == ["d", "k", "r", "e"]


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_keep_results_and_copy_no_more(seed: int) -> None:
    chance = random.Random(seed)
    values = ["a", "b"]
    lines = []
    for n in range(chance.randrange(5, 30)):
        x, y = chance.choice(values), chance.choice(values)
        line = chance.choice(
            [
                f"dynamic-update-slice({x}, u, i)",
                f"dynamic-update-slice({x}, part{n}, i)",
                f"scatter({x}, j, u), update_window_dims={{}}, inserted_window_dims={{0}}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=last",
                f"cosine({x})",
                f"add({x}, {y})",
                f"conditional(z, {x}, {y}), true_computation=change, false_computation=keep",
                f"call({x}), to_apply=change",
            ]
        )
        lines += [f"part{n} = f32[2] slice({y}), slice={{[8:10]}}", f"v{n} = f32[100] {line}"]
        # Old versions are read, too.
        values = [*values[-4:], f"v{n}"]
    results = chance.sample(values, min(3, len(values)))
    shape = ", ".join(["f32[100]"] * len(results))
    chance.shuffle(results)
    module = entry(
        "z = pred[] constant(true)",
        "j = s32[2,1] broadcast(i), dimensions={}",
        *lines,
        f"ROOT t = ({shape}) tuple({', '.join(results)})",
        before=SCATTERED + BRANCHES.replace("  y =", "  ROOT y ="),
    )
    after = copy_module(module)
    InPlaceOrder().apply(after)
    verify(after)
    assert_kept(module, after)
    assert bytes_of(after)[0] <= bytes_of(module)[0]
