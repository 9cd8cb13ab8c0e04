from tests.corpus.hlo_text import parse_hlo
from tests.processors import TARGET
from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS, NOT_LOWERED
from xla_server.ir.importer import import_module
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.pipeline import NEEDED, pipeline
from xla_server.passes.simplify.empty_arrays import EmptyArrays


def test_every_opcode_is_lowered_or_expanded_or_says_why_not() -> None:
    # Arrays without elements are dropped whatever the opcode is.
    names = NEEDED - {EmptyArrays.name}
    steps = [step for step in pipeline(TARGET) if isinstance(step, RewritePass)]
    expanded = {opcode for step in steps if step.name in names for opcode in step.opcodes}
    assert set(LOWERINGS) | expanded | set(NOT_LOWERED) == set(Opcode)
    assert not (set(LOWERINGS) | expanded) & set(NOT_LOWERED)


def test_what_waits_for_a_recv_comes_after_what_need_not_wait() -> None:
    text = """HloModule m
    ENTRY main {
      x = f32[2] parameter(0)
      a = token[] after-all()
      r = (f32[2], u32[], token[]) recv(a), channel_id=1
      rd = (f32[2], token[]) recv-done(r), channel_id=1
      b = token[] after-all()
      s = (f32[2], u32[], token[]) send(x, b), channel_id=2
      sd = token[] send-done(s), channel_id=2
      ROOT y = f32[2] get-tuple-element(rd), index=0
    }"""
    module = import_module(parse_hlo(text))
    first = {Opcode.RECV: 0, Opcode.RECV_DONE: 1}
    module.entry.instructions.sort(key=lambda i: first.get(i.opcode, 2 if i.operands else -1))
    module.entry.instructions.remove(module.entry.root)
    module.entry.instructions.append(module.entry.root)
    names = [thunk.name for thunk in lower(module, LOWERINGS, TARGET).thunks]  # type: ignore[union-attr]
    assert names.index("s") < names.index("rd")
