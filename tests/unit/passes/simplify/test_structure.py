"""Calls, tuples and dead code, and the few operations that every pass is written with."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.passes.passing import imported, opcodes, passed, rewritten, stated
from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import MAX_INSTRUCTIONS, HloInstruction, HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import Editor, copy_module, rewrite, users
from xla_server.passes.framework.fixpoint import Pass
from xla_server.passes.simplify.call_inliner import (
    CallInliner,
    FusionInliner,
    require_inlinable,
)
from xla_server.passes.simplify.dead_code import DeadCode
from xla_server.passes.simplify.tuple_simplifier import TupleSimplifier

NESTED = """HloModule m
inner { a = f32[4] parameter(0)
  ROOT b = f32[4] add(a, a) }
outer { c = f32[4] parameter(0)
  d = f32[4] call(c), to_apply=inner
  ROOT e = f32[4] call(d), to_apply=inner }
ENTRY e { x = f32[4] parameter(0)
  ROOT y = f32[4] call(x), to_apply=outer }
"""


@pytest.mark.parametrize(
    ("text", "inliner"),
    [
        (NESTED, CallInliner()),
        (
            NESTED.replace("call(", "fusion(").replace("to_apply=", "kind=kLoop, calls="),
            FusionInliner(),
        ),
    ],
    ids=["calls", "fusions"],
)
def test_calls_are_inlined_in_calls(text: str, inliner: Pass) -> None:
    after = rewritten(imported(text), inliner)
    assert opcodes(after) == {"add": 2}
    assert after.computations == [after.entry]


def test_without_calls_nothing_is_inlined() -> None:
    passed(stated(["f32[]"], "f32[] add(x0, o)"), CallInliner(), fires=False)
    passed(imported(NESTED), FusionInliner(), fires=False)


def doubling(called: str) -> HloModule:
    """Return a program that calls one of 40 levels, each of which calls the level below twice."""
    levels = "".join(
        f"level{n} {{ a{n} = f32[4] parameter(0)\n"
        f"  b{n} = f32[4] call(a{n}), to_apply=level{n - 1}\n"
        f"  ROOT c{n} = f32[4] call(b{n}), to_apply=level{n - 1} }}\n"
        for n in range(1, 40)
    )
    innermost = "level0 { a0 = f32[4] parameter(0)\n  ROOT b0 = f32[4] add(a0, a0) }\n"
    entry = f"ENTRY e {{ x = f32[4] parameter(0)\n  ROOT y = f32[4] call(x), to_apply={called} }}\n"
    return imported(f"HloModule m\n{innermost}{levels}{entry}")


def test_calls_in_computations_that_nothing_calls_are_not_inlined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, copy, copied = doubling("level1"), Editor.copy, []

    def counted(editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]) -> Any:
        copied.append(i)
        assert len(copied) <= 2
        return copy(editor, i, operands)

    monkeypatch.setattr(Editor, "copy", counted)
    require_inlinable(module)
    assert opcodes(rewritten(module, CallInliner())) == {"add": 2}


def test_calls_that_double_and_double_are_refused_before_they_are_inlined() -> None:
    module = doubling("level39")
    with pytest.raises(
        ResourceExhaustedError, match=rf"at most {MAX_INSTRUCTIONS} .*got [0-9]{{13}}$"
    ):
        require_inlinable(module)
    require_inlinable(imported(NESTED))


def test_tuples_are_read_through() -> None:
    before = stated(
        ["f32[4]", "f32[]"],
        "f32[] get-tuple-element(t), index=1",
        "t = (f32[4], f32[]) tuple(x0, x1)",
    )
    assert opcodes(rewritten(before, TupleSimplifier())) == {}


def test_tuples_of_others_stay() -> None:
    module = imported("""HloModule m
ENTRY e { t = (f32[4], f32[]) parameter(0)
  ROOT r = f32[] get-tuple-element(t), index=1 }
""")
    passed(module, TupleSimplifier(), fires=False)


def test_what_nothing_reads_is_dropped() -> None:
    before = stated(
        ["f32[4]"], "f32[4] negate(x0)", "unread = f32[4] sort(x0), to_apply=ge, dimensions={0}"
    )
    after = rewritten(before, DeadCode())
    assert opcodes(after) == {"negate": 1}
    assert after.computations == [after.entry]
    passed(after, DeadCode(), fires=False)


def test_effects_stay_in_their_order() -> None:
    module = imported("""HloModule m
ENTRY e { x = f32[4] parameter(0)
  t = token[] after-all()
  first = token[] outfeed(x, t), outfeed_shape=f32[4]
  second = token[] outfeed(x, t), outfeed_shape=f32[4]
  ROOT r = f32[4] negate(x) }
""")
    after = copy_module(module)
    DeadCode().apply(after)
    verify(after)
    kept = [i.name for i in after.entry.instructions if i.opcode is Opcode.OUTFEED]
    assert kept == ["first", "second"]


class TestEditor:
    def test_names_are_new(self) -> None:
        module = stated(["f32[]"], "f32[] add(x0, o)")
        editor = Editor(module)
        taken = {i.name for i in module.instructions()}
        made = [editor.parameter(0, module.entry.root.shape) for _ in range(3)]
        assert len({*(i.name for i in made), *taken}) == 3 + len(taken)

    def test_rewriting_a_chain_reaches_its_end(self) -> None:
        before = stated(["f32[4]"], "f32[4] negate(b)", "a = f32[4] abs(x0)", "b = f32[4] abs(a)")
        after = copy_module(before)
        editor = Editor(after)
        assert rewrite(
            after.entry, lambda i: i.operands[0] if i.opcode is Opcode.ABS else None, editor
        )
        verify(after)
        assert opcodes(after) == {"negate": 1}
        assert after.entry.root.operands == after.entry.parameters

    def test_readers_are_listed_once(self) -> None:
        module = stated(["f32[4]"], "f32[4] add(x0, x0)")
        assert users(module.entry)[module.entry.parameters[0]] == [module.entry.root]

    @pytest.mark.parametrize("opcode", [Opcode.ADD, Opcode.MULTIPLY])
    def test_computations_made_are_no_part_of_what_is_rewritten(self, opcode: Opcode) -> None:
        from xla_contract.types.element_type import ElementType
        from xla_server.passes.framework.queries import combiner

        editor = Editor(stated(["f32[]"], "f32[] add(x0, o)"))
        made = editor.binary_computation(opcode, ElementType.F32)
        assert combiner(made) is opcode
        assert editor.drain() == []
