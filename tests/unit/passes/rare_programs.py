"""Programs for passes that find nothing to do in the corpora, by what they hold."""

from collections.abc import Mapping

from tests.unit.ops.reduction import test_scan as scans
from tests.unit.passes.passing import imported, stated
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

_ZERO = "zero = f32[] constant(0)"
_NESTED = """HloModule m
inner { a = f32[4] parameter(0)
  ROOT b = f32[4] add(a, a) }
ENTRY e { x = f32[4] parameter(0)
  ROOT y = f32[4] fusion(x), kind=kLoop, calls=inner }
"""
_LOOP_IN_REDUCTION = """HloModule m
double { x = (f32[], s32[]) parameter(0)
  y = f32[] get-tuple-element(x), index=0
  n = s32[] get-tuple-element(x), index=1
  z = f32[] add(y, y)
  one = s32[] constant(1)
  k = s32[] subtract(n, one)
  ROOT next = (f32[], s32[]) tuple(z, k) }
goes_on { x = (f32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(x), index=1
  zero = s32[] constant(0)
  ROOT p = pred[] compare(n, zero), direction=GT }
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  n = s32[] convert(b)
  s = (f32[], s32[]) tuple(b, n)
  w = (f32[], s32[]) while(s), condition=goes_on, body=double
  r = f32[] get-tuple-element(w), index=0
  ROOT t = f32[] maximum(a, r) }
ENTRY e { x = f32[7] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f }
"""

PROGRAMS: Mapping[str, HloModule] = {
    "a bitcast": stated(["f32[2,3]"], "f32[6] bitcast(x0)"),
    "a sum of a stack": stated(
        ["f32[4,1]", "f32[4,1]", "f32[4,1]"],
        "f32[4] negate(s)",
        _ZERO,
        "c = f32[4,3] concatenate(x0, x1, x2), dimensions={1}",
        "s = f32[4] reduce(c, zero), dimensions={1}, to_apply=add",
    ),
    "a convolution of many features": stated(
        ["f32[8,32,32,64]", "f32[3,3,64,64]"],
        "f32[8,32,32,64] convolution(x0, x1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    ),
    "a marked value": stated(
        ["f32[2,3]"],
        "f32[2,3] negate(m)",
        'm = f32[2,3] custom-call(x0), custom_call_target="Sharding"',
    ),
    "windows side by side": stated(
        ["f32[90]", "f32[]"],
        "f32[9] reduce-window(x0, x1), window={size=10 stride=10}, to_apply=add",
    ),
    "a reduction whose computation has a loop": imported(_LOOP_IN_REDUCTION),
    "a fusion": imported(_NESTED),
    "a barrier": stated(["f32[4]"], "f32[4] negate(b)", "b = f32[4] opt-barrier(x0)"),
    "softmax of long rows": stated(
        ["f32[20,131072]"],
        "f32[20,131072] divide(e, w)",
        _ZERO,
        "e = f32[20,131072] exponential(x0)",
        "s = f32[20] reduce(e, zero), dimensions={1}, to_apply=add",
        "w = f32[20,131072] broadcast(s), dimensions={0}",
    ),
    "a sum of sums": stated(
        ["f32[3,4,5]"],
        "f32[5] negate(outer)",
        _ZERO,
        "inner = f32[4,5] reduce(x0, zero), dimensions={0}, to_apply=add",
        "outer = f32[5] reduce(inner, zero), dimensions={0}, to_apply=add",
    ),
    "a scaled product": stated(
        ["bf16[4,64]", "bf16[64,8]", "bf16[4,2]", "bf16[2,8]"],
        "f32[4,8] scaled-dot(x0, x1, x2, x3), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a scan": import_module(scans.written(next(iter(scans.PROGRAMS)))),
    "a size that is known": stated(["f32[3,5]"], "s32[] get-dimension-size(x0), dimensions={1}"),
    "transposes around an operation": stated(
        ["f32[2,3,4]"],
        "f32[2,3,4] transpose(m), dimensions={2,1,0}",
        "t = f32[4,3,2] transpose(x0), dimensions={2,1,0}",
        "m = f32[4,3,2] negate(t)",
    ),
    "a sum of many elements": stated(
        ["f32[1048576]"], "f32[] reduce(x0, zero), dimensions={0}, to_apply=add", _ZERO
    ),
    "a slice of an array that is updated": stated(
        ["f32[32768]", "f32[2]", "s32[]"],
        "(f32[32768], f32[2]) tuple(d, both)",
        "a = f32[32768] negate(x0)",
        "d = f32[32768] dynamic-update-slice(a, x1, x2)",
        "early = f32[2] slice(a), slice={[4:6]}",
        "later = f32[2] slice(d), slice={[5:7]}",
        "both = f32[2] add(early, later)",
    ),
}
"""Each is for one pass, in the order of the names of passes."""
