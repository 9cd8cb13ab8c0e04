"""HLO text and messages by way of jaxlib, the judge of what XLA reads and writes."""

from xla_contract.stubs import hlo_pb2

VECTOR_LOOP = """
HloModule loop

add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b) }

body { state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  v = f32[4] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  doubled = f32[4] add(v, v)
  ROOT new_state = (s32[], f32[4]) tuple(next, doubled) }

condition { state.1 = (s32[], f32[4]) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(i.1, limit), direction=LT }

ENTRY main { x = f32[4] parameter(0)
  start = s32[] constant(0)
  zero = f32[] constant(0)
  begin = (s32[], f32[4]) tuple(start, x)
  loop = (s32[], f32[4]) while(begin), condition=condition, body=body
  last = f32[4] get-tuple-element(loop), index=1
  total = f32[] reduce(last, zero), dimensions={0}, to_apply=add
  wide = f32[4] broadcast(total), dimensions={}
  ROOT answer = f32[4] subtract(last, wide) }
"""
"""A program with a loop, a reduction and constants; f(x) = 8 x - sum(8 x)."""


def parse_hlo(text: str) -> hlo_pb2.HloModuleProto:
    """The module that jaxlib reads from HLO text."""
    from jax._src.lib import xla_client

    module = xla_client.hlo.hlo_module_from_text(text)
    return hlo_pb2.HloModuleProto.FromString(module.as_serialized_hlo_module_proto())


def print_hlo(proto: hlo_pb2.HloModuleProto) -> str:
    """The HLO text of the module that jaxlib loads from a message."""
    from jax._src.lib import xla_client

    text: str = xla_client.XlaComputation(proto.SerializeToString()).as_hlo_text()
    return text
