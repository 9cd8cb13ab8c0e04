from tests.corpus.hlo_text import parse_hlo
from xla_server.buffers.assignment import assign
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.passes.state_last import StateLast

BODY = """
HloModule m

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
  limit = s32[] constant(50)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}}

ENTRY main {{
  x = f32[100] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[100], f32[100]) tuple(zero, x, x)
  ROOT loop = (s32[], f32[100], f32[100]) while(begin), condition=condition, body=body
}}
"""


def module_of(*lines: str) -> HloModule:
    return import_module(parse_hlo(BODY.format(lines="\n  ".join(lines))))


def order(module: HloModule, *names: str) -> list[str]:
    (body,) = [part for part in module.computations if part.name.startswith("body")]
    found = [part.name.split(".")[0] for part in body.instructions]
    return sorted(names, key=found.index)


def test_what_makes_the_next_value_comes_behind_what_reads_the_old_one() -> None:
    module = module_of("c = f32[100] negate(a)", "d = f32[100] add(a, b)")
    assert order(module, "c", "d") == ["c", "d"]
    assert StateLast().apply(module)
    assert order(module, "c", "d") == ["d", "c"]
    assert not StateLast().apply(module)


def test_the_counter_grows_behind_its_readers() -> None:
    module = module_of(
        "f = f32[] convert(i)",
        "w = f32[100] broadcast(f), dimensions={}",
        "c = f32[100] add(a, w)",
        "d = f32[100] negate(b)",
    )
    StateLast().apply(module)
    assert order(module, "next", "f") == ["f", "next"]


def test_values_that_need_each_other_stay_in_their_order() -> None:
    module = module_of("c = f32[100] negate(a)", "d = f32[100] add(a, c)")
    StateLast().apply(module)
    assert order(module, "c", "d") == ["c", "d"]
    swapped = module_of("c = f32[100] negate(b)", "d = f32[100] abs(a)")
    StateLast().apply(swapped)
    assert len(order(swapped, "c", "d")) == 2


def test_readers_of_a_reshape_read_the_state() -> None:
    module = module_of(
        "c = f32[100] negate(a)",
        "r = f32[10,10] reshape(a)",
        "n = f32[10,10] exponential(r)",
        "d = f32[100] reshape(n)",
    )
    StateLast().apply(module)
    assert order(module, "c", "n") == ["n", "c"]


def test_a_loop_so_ordered_takes_no_more_memory_than_its_state() -> None:
    module = module_of("c = f32[100] negate(a)", "d = f32[100] add(a, b)")
    before = assign(lower(module, LOWERINGS)).arena_bytes
    StateLast().apply(module)
    after = assign(lower(module, LOWERINGS)).arena_bytes
    assert after < 400 <= before
