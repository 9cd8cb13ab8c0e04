"""Barriers between the versions of an array that is updated."""

import random

import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import copied_bytes
from tests.unit.passes.passing import assert_kept, passed, rewritten
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import KernelThunk
from xla_server.fusion.update_barriers import UpdateBarriers
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.framework.selection import PassOptions

SIZE = 1 << 15


def entry(*lines: str, size: int = SIZE) -> HloModule:
    """A program of p f32[size], u f32[2], v f32[2,2], i s32[], with a computed from p."""
    text = "\n  ".join(lines)
    return parse_module(f"""HloModule m

ENTRY main {{
  p = f32[{size}] parameter(0)
  u = f32[2] parameter(1)
  v = f32[2,2] parameter(2)
  i = s32[] parameter(3)
  a = f32[{size}] negate(p)
  {text}
}}
""")


def copied(module: HloModule, *disabled: str) -> int:
    """The bytes that a compiled module copies."""
    compilation = compile_module(module, PassOptions(disabled=frozenset(disabled)))
    return copied_bytes(compilation.code, compilation.assignment)


def assert_cut(module: HloModule, *operands: str) -> None:
    """The module gets barriers after these instructions, and copies nothing for that."""
    after = rewritten(module, UpdateBarriers(TARGET))
    found = [str(i.operands[0].name) for i in after.entry.instructions if "barrier" in i.name]
    assert sorted(found) == sorted(operands)
    assert copied(module, "update-barriers") > copied(module) == 0


def assert_stays(module: HloModule) -> None:
    passed(module, UpdateBarriers(TARGET), fires=False)


READ = "r = f32[2] slice(a), slice={[4:6]}"
UPDATE = f"d = f32[{SIZE}] dynamic-update-slice(a, u, i)"
READ_NEW = "n = f32[2] slice(d), slice={[5:7]}"


def result(last: str = "n", shape: str = "f32[2]") -> str:
    return f"ROOT t = (f32[{SIZE}], {shape}) tuple(d, {last})"


def test_a_slice_of_the_old_array_is_stored_for_a_reader_of_the_new_one() -> None:
    assert_cut(entry(UPDATE, READ, READ_NEW, "o = f32[2] add(r, n)", result("o")), "r")


def test_what_is_computed_from_the_old_array_alone_is_one_loop() -> None:
    lines = "e = f32[2] exponential(r)", "f = f32[2] multiply(e, u)", "o = f32[2] add(f, n)"
    assert_cut(entry(UPDATE, READ, READ_NEW, *lines, result("o")), "f")


def test_each_version_is_stored_for_the_next() -> None:
    lines = [
        f"d1 = f32[{SIZE}] dynamic-update-slice(a, u, i)",
        "n1 = f32[2] slice(d1), slice={[1:3]}",
    ]
    total = "n1"
    for n in range(2, 6):
        lines += [
            f"d{n} = f32[{SIZE}] dynamic-update-slice(d{n - 1}, u, i)",
            f"n{n} = f32[2] slice(d{n}), slice={{[{n}:{n + 2}]}}",
            f"o{n} = f32[2] add({total}, n{n})",
        ]
        total = f"o{n}"
    module = entry(*lines, f"ROOT t = (f32[{SIZE}], f32[2]) tuple(d5, o5)")
    assert_cut(module, "n1", "o2", "o3", "o4")


def test_a_small_operand_is_stored_rather_than_its_broadcast() -> None:
    assert_cut(
        entry(
            UPDATE,
            READ,
            "w = f32[2,20000] broadcast(r), dimensions={0}",
            "n = f32[20000] slice(d), slice={[5:20005]}",
            "x = f32[2,20000] broadcast(n), dimensions={1}",
            "o = f32[2,20000] add(w, x)",
            result("o", "f32[2,20000]"),
        ),
        "r",
    )


def test_a_product_is_stored_where_the_loop_after_it_needs_the_new_array() -> None:
    assert_cut(
        entry(
            f"b = f32[{SIZE // 2},2] reshape(a)",
            f"q = f32[{SIZE // 2},2] reshape(p)",
            "m = f32[2,2] dot(b, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            UPDATE,
            READ_NEW,
            "w = f32[2,2] broadcast(n), dimensions={1}",
            "o = f32[2,2] add(m, w)",
            result("o", "f32[2,2]"),
        ),
        "m",
    )


def test_a_donated_argument_is_not_copied() -> None:
    module = entry(
        UPDATE.replace("(a", "(p"),
        READ.replace("(a", "(p"),
        READ_NEW,
        "o = f32[2] add(r, n)",
        result("o"),
    )
    assert_kept(module, passed(module, UpdateBarriers(TARGET)))
    code = compile_module(module).code
    assert copied_bytes(code, assign(code, frozenset([0]))) == 0


LOOP = """HloModule m

body {{
  state = (s32[], f32[], f32[{size}]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  s = f32[] get-tuple-element(state), index=1
  a = f32[{size}] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  r = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={{1}}
  e = f32[1] cosine(r)
  d = f32[{size}] dynamic-update-slice(a, e, next)
  n = f32[1] slice(d), slice={{[5:6]}}
  o = f32[1] add(r, n)
  z = f32[] reshape(o)
  t = f32[] add(s, z)
  ROOT new = (s32[], f32[], f32[{size}]) tuple(next, t, d)
}}

condition {{
  state.1 = (s32[], f32[], f32[{size}]) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  limit = s32[] constant(20)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}}

ENTRY main {{
  x = f32[{size}] parameter(0)
  zero = s32[] constant(0)
  start = f32[] constant(0)
  begin = (s32[], f32[], f32[{size}]) tuple(zero, start, x)
  ROOT loop = (s32[], f32[], f32[{size}]) while(begin), condition=condition, body=body
}}
"""


def test_a_loop_with_barriers_in_it_stays_one_kernel() -> None:
    module = parse_module(LOOP.format(size=SIZE))
    rewritten(module, UpdateBarriers(TARGET))
    thunks = compile_module(module).code.thunks
    assert [thunk.name for thunk in thunks if isinstance(thunk, KernelThunk)] == ["loop"]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_keep_results_and_copy_no_more(seed: int) -> None:
    chance = random.Random(seed)
    arrays, read, lines = ["a"], ["u"], []
    for n in range(chance.randrange(4, 16)):
        array, first, second = chance.choice(arrays), chance.choice(read), chance.choice(read)
        start = chance.randrange(50)
        line = chance.choice(
            [
                f"y{n} = f32[{SIZE}] dynamic-update-slice({array}, {first}, i)",
                f"y{n} = f32[2] slice({array}), slice={{[{start}:{start + 2}]}}",
                f"y{n} = f32[2] add({first}, {second})",
                f"y{n} = f32[2] cosine({first})",
            ]
        )
        lines.append(line)
        # Old versions are read, too.
        found = arrays if str(SIZE) in line else read
        found[:] = [*found[-2:], f"y{n}"]
    shape, values = f"f32[{SIZE}]", [arrays[-1], *read]
    shapes = ", ".join([shape, *["f32[2]"] * len(read)])
    module = entry(*lines, f"ROOT t = ({shapes}) tuple({', '.join(values)})")
    after = copy_module(module)
    UpdateBarriers(TARGET).apply(after)
    verify(after)
    assert_kept(module, after)
    assert copied(module) <= copied(module, "update-barriers")


@pytest.mark.parametrize(
    "module",
    [
        entry(UPDATE, READ, READ_NEW, "ROOT t = (f32[2], f32[2]) tuple(r, n)"),
        entry(
            UPDATE,
            READ,
            READ_NEW,
            "o = f32[2] add(r, n)",
            f"b = f32[{SIZE}] add(a, d)",
            f"ROOT t = (f32[{SIZE}], f32[2], f32[{SIZE}]) tuple(d, o, b)",
        ),
        entry(UPDATE, READ_NEW, result()),
        entry(UPDATE, READ, "o = f32[2] add(r, u)", result("o")),
        entry(
            UPDATE,
            READ,
            READ_NEW,
            "o = f32[2] add(r, n)",
            f"ROOT t = (f32[2], f32[{SIZE}]) tuple(o, a)",
        ),
        entry(
            UPDATE.replace("(a", "(p"),
            "r = f32[4096] slice(p), slice={[4:4100]}",
            "n = f32[4096] slice(d), slice={[5:4101]}",
            "o = f32[4096] add(r, n)",
            result("o", "f32[4096]"),
        ),
        entry(UPDATE, f"o = f32[{SIZE}] add(a, d)", result("o", f"f32[{SIZE}]")),
        entry(
            UPDATE,
            f"f = f32[{SIZE}] cosine(a)",
            f"o = f32[{SIZE}] add(f, d)",
            result("o", f"f32[{SIZE}]"),
        ),
        entry(
            UPDATE.replace(str(SIZE), "100"),
            READ,
            READ_NEW,
            "o = f32[2] add(r, n)",
            "ROOT t = (f32[100], f32[2]) tuple(d, o)",
            size=100,
        ),
        entry(
            UPDATE,
            READ,
            "m = f32[2] dot(r, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            READ_NEW,
            "s = f32[2,2] broadcast(n), dimensions={0}",
            "o = f32[2] dot(r, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            f"ROOT t = (f32[2], f32[2], f32[{SIZE}]) tuple(o, m, d)",
        ),
    ],
    ids=[
        "separate",
        "copied-for-another",
        "new-only",
        "old-only",
        "result",
        "large-slice-of-argument",
        "reads-both",
        "as-large",
        "small-array",
        "product",
    ],
)
def test_nothing_is_stored_where_it_saves_no_copy(module: HloModule) -> None:
    assert_stays(module)
