"""Passes that replace instructions one by one."""

from tests.unit.passes.passing import imported
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


def test_a_rule_is_applied_to_every_computation() -> None:
    module = imported("""HloModule m
f { a = f32[] parameter(0) ROOT b = f32[] negate(a) }
g { c = f32[] parameter(0) ROOT d = f32[] negate(c) }
ENTRY e { x = f32[] parameter(0) y = f32[] call(x), to_apply=f ROOT z = f32[] call(y), to_apply=g }
""")

    class Positive(RewritePass):
        opcodes = (Opcode.NEGATE,)

        def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
            return editor.add(Opcode.ABS, i.operands)

    assert Positive().apply(module)
    roots = [str(part.root.opcode) for part in module.computations]
    assert sorted(roots) == ["abs", "abs", "call"]
    assert not Positive().apply(module)
