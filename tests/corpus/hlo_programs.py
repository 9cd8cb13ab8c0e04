"""Programs in HLO text around one operation each, for operations that contract, reduce or index.

``PROGRAMS`` maps a name to (text, how to make the arguments from a random generator). Arguments
are described by (dtype, dimensions) or given as arrays.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

Argument = Any

_SCALAR_OPS = """
add { a.add = f32[] parameter(0)
  b.add = f32[] parameter(1)
  ROOT r.add = f32[] add(a.add, b.add) }
mul { a.mul = f32[] parameter(0)
  b.mul = f32[] parameter(1)
  ROOT r.mul = f32[] multiply(a.mul, b.mul) }
max { a.max = f32[] parameter(0)
  b.max = f32[] parameter(1)
  ROOT r.max = f32[] maximum(a.max, b.max) }
ge { a.ge = f32[] parameter(0)
  b.ge = f32[] parameter(1)
  ROOT r.ge = pred[] compare(a.ge, b.ge), direction=GE }
second { a.second = f32[] parameter(0)
  ROOT r.second = f32[] parameter(1) }
hypot { a.hypot = f32[] parameter(0)
  b.hypot = f32[] parameter(1)
  c.hypot = f32[] multiply(a.hypot, a.hypot)
  d.hypot = f32[] multiply(b.hypot, b.hypot)
  e.hypot = f32[] add(c.hypot, d.hypot)
  ROOT r.hypot = f32[] sqrt(e.hypot) }
add_s8 { a.s8 = s8[] parameter(0)
  b.s8 = s8[] parameter(1)
  ROOT r.s8 = s8[] add(a.s8, b.s8) }
add_bf16 { a.bf16 = bf16[] parameter(0)
  b.bf16 = bf16[] parameter(1)
  ROOT r.bf16 = bf16[] add(a.bf16, b.bf16) }
or { a.or = pred[] parameter(0)
  b.or = pred[] parameter(1)
  ROOT r.or = pred[] or(a.or, b.or) }
mul_c64 { a.c64 = c64[] parameter(0)
  b.c64 = c64[] parameter(1)
  ROOT r.c64 = c64[] multiply(a.c64, b.c64) }
argmax { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(v, w), direction=GT
  equal = pred[] compare(v, w), direction=EQ
  earlier = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, earlier)
  first = pred[] or(above, tie)
  value = f32[] select(first, v, w)
  place = s32[] select(first, i, j)
  ROOT best = (f32[], s32[]) tuple(value, place) }
by_value { x.0 = f32[] parameter(0)
  y.0 = f32[] parameter(1)
  x.1 = s32[] parameter(2)
  y.1 = s32[] parameter(3)
  ROOT less.0 = pred[] compare(x.0, y.0), direction=GT }
by_both { k.0 = s32[] parameter(0)
  l.0 = s32[] parameter(1)
  k.1 = f32[] parameter(2)
  l.1 = f32[] parameter(3)
  less.k = pred[] compare(k.0, l.0), direction=LT
  same.k = pred[] compare(k.0, l.0), direction=EQ
  less.l = pred[] compare(k.1, l.1), direction=LT
  then = pred[] and(same.k, less.l)
  ROOT before = pred[] or(less.k, then) }
descending { m.0 = s32[] parameter(0)
  n.0 = s32[] parameter(1)
  ROOT more = pred[] compare(m.0, n.0), direction=GT }
sum_and_max { p.0 = f32[] parameter(0)
  p.1 = f32[] parameter(1)
  q.0 = f32[] parameter(2)
  q.1 = f32[] parameter(3)
  s.0 = f32[] add(p.0, q.0)
  s.1 = f32[] maximum(p.1, q.1)
  ROOT both = (f32[], f32[]) tuple(s.0, s.1) }
twice { t = f32[] parameter(0)
  ROOT u = f32[] add(t, t) }
thrice { t.3 = f32[] parameter(0)
  u.3 = f32[] add(t.3, t.3)
  ROOT w.3 = f32[] add(u.3, t.3) }
minus { t.m = f32[] parameter(0)
  ROOT u.m = f32[] negate(t.m) }
"""

_NAMES = ("f32", "s32", "bf16", "c64", "s8", "u8", "pred")
_DTYPES: dict[str, Any] = dict(
    zip(
        _NAMES,
        (np.float32, np.int32, ml_dtypes.bfloat16, np.complex64, np.int8, np.uint8, np.bool_),
        strict=True,
    )
)


def program(parameters: Sequence[str], root: str, *before: str) -> str:
    """Return a module whose entry takes parameters x0 to xn of these shapes and returns ``root``.

    z is 0, o is 1 and n is 0 in s32; ``before`` are more instructions.
    """
    lines = [f"x{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    lines += ["z = f32[] constant(0)", "o = f32[] constant(1)", "n = s32[] constant(0)"]
    lines += [*before, f"ROOT result = {root}"]
    body = "\n  ".join(lines)
    return f"HloModule m\n{_SCALAR_OPS}\nENTRY entry {{ {body} }}\n"


def arguments(parameters: Sequence[str], seed: int = 0) -> list[Any]:
    """Random arguments of shapes such as ``f32[2,3]``; integers are small and of both signs."""
    random = np.random.default_rng(seed)
    made = []
    for text in parameters:
        name, _, inside = text.partition("[")
        sizes = [int(size) for size in inside.rstrip("]").split(",") if size]
        if name == "pred":
            array: Any = random.random(sizes) < 0.3
        elif name == "c64":
            array = random.standard_normal(sizes) + 1j * random.standard_normal(sizes)
        elif name in ("f32", "bf16"):
            array = random.standard_normal(sizes)
        else:
            array = random.integers(0 if name == "u8" else -3, 9, sizes)
        made.append(np.asarray(array).astype(_DTYPES[name]))
    return made


def _conv(
    lhs: str, rhs: str, result: str, window: str, labels: str, more: str = ""
) -> tuple[list[str], str]:
    window = f", window={{{window}}}" if window else ""
    return [lhs, rhs], f"{result} convolution(x0, x1){window}, dim_labels={labels}{more}"


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "dot": (
        ["f32[4,2,3]", "f32[3,5,2]"],
        "f32[2,4,5] dot(x0, x1), lhs_batch_dims={1}, rhs_batch_dims={2}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "dot_two_contracting": (
        ["f32[4,2,3]", "f32[3,5,4]"],
        "f32[2,5] dot(x0, x1), lhs_contracting_dims={2,0}, rhs_contracting_dims={0,2}",
    ),
    "dot_outer": (["f32[4]", "f32[3]"], "f32[4,3] dot(x0, x1)"),
    "dot_empty": (
        ["f32[2,0]", "f32[0,3]"],
        "f32[2,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_s8_to_s32": (
        ["s8[2,3]", "s8[3,4]"],
        "s32[2,4] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_s8_wraps": (
        ["s8[9,99]", "s8[99,4]"],
        "s8[9,4] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_bf16_to_f32": (
        ["bf16[2,30]", "bf16[30,4]"],
        "f32[2,4] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_c64": (
        ["c64[2,3]", "c64[3,4]"],
        "c64[2,4] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "conv_2d": _conv(
        "f32[2,7,6,3]",
        "f32[3,2,3,4]",
        "f32[2,4,6,4]",
        "size=3x2 stride=2x1 pad=1_1x0_1",
        "b01f_01io->b01f",
    ),
    "conv_0d": _conv("f32[2,3]", "f32[3,4]", "f32[2,4]", "", "bf_io->bf"),
    "conv_3d": _conv(
        "f32[1,2,4,5,3]",
        "f32[3,2,2,2,2]",
        "f32[1,3,3,4,2]",
        "size=2x2x2",
        "bf012_oi012->bf012",
    ),
    "conv_dilated": _conv(
        "f32[2,3,5,6]",
        "f32[4,3,3,2]",
        "f32[4,7,4,2]",
        "size=3x2 pad=1_-1x-1_2 lhs_dilate=2x1 rhs_dilate=1x3",
        "bf01_oi01->f01b",
    ),
    "conv_all_cut_off": _conv(
        "f32[1,1,4]", "f32[1,1,2]", "f32[1,1,4]", "size=2 pad=-5_6", "bf0_oi0->bf0"
    ),
    "conv_reversed": _conv(
        "f32[1,5,5,2]",
        "f32[3,3,2,2]",
        "f32[1,3,5,2]",
        "size=3x3 pad=0_0x1_1 rhs_reversal=1x0",
        "b01f_01io->b01f",
    ),
    "conv_feature_groups": _conv(
        "f32[2,5,5,6]",
        "f32[3,3,2,9]",
        "f32[2,3,3,9]",
        "size=3x3",
        "b01f_01io->b01f",
        ", feature_group_count=3",
    ),
    "conv_depthwise": _conv(
        "f32[1,4,4,5]",
        "f32[2,2,1,10]",
        "f32[1,3,3,10]",
        "size=2x2",
        "b01f_01io->b01f",
        ", feature_group_count=5",
    ),
    "conv_batch_groups": _conv(
        "f32[6,5,4]",
        "f32[3,4,9]",
        "f32[2,3,9]",
        "size=3",
        "b0f_0io->b0f",
        ", batch_group_count=3",
    ),
    "conv_bf16": _conv("bf16[2,7,3]", "bf16[3,3,4]", "f32[2,5,4]", "size=3", "b0f_0io->b0f"),
    "conv_s32": _conv("s32[2,7,3]", "s32[3,3,4]", "s32[2,5,4]", "size=3", "b0f_0io->b0f"),
    "reduce": (["f32[3,4,5]"], "f32[4] reduce(x0, o), dimensions={2,0}, to_apply=add"),
    "reduce_max_empty": (["f32[3,0]"], "f32[3] reduce(x0, o), dimensions={1}, to_apply=max"),
    "reduce_s8": (
        ["s8[3,99]"],
        "s8[3] reduce(x0, start), dimensions={1}, to_apply=add_s8",
        "start = s8[] constant(0)",
    ),
    "reduce_bf16": (
        ["bf16[3,99]"],
        "bf16[3] reduce(x0, start), dimensions={1}, to_apply=add_bf16",
        "start = bf16[] constant(0)",
    ),
    "reduce_or": (["pred[9,2]", "pred[]"], "pred[9] reduce(x0, x1), dimensions={1}, to_apply=or"),
    "reduce_c64": (
        ["c64[9,2]", "c64[]"],
        "c64[2] reduce(x0, x1), dimensions={0}, to_apply=mul_c64",
    ),
    "reduce_argmax": (
        ["f32[3,7]", "s32[3,7]"],
        "(f32[3], s32[3]) reduce(x0, x1, o, n), dimensions={1}, to_apply=argmax",
    ),
    "reduce_hypot": (["f32[5,3]"], "f32[3] reduce(x0, o), dimensions={0}, to_apply=hypot"),
    "window": (
        ["f32[5,6]"],
        "f32[4,3] reduce-window(x0, o), window={size=2x3 stride=1x2 pad=0_0x1_0}, to_apply=add",
    ),
    "window_dilated": (
        ["f32[5,6]"],
        "f32[9,3] reduce-window(x0, o), window={size=3x2 stride=1x3 pad=1_1x-1_1 "
        "lhs_dilate=2x2 rhs_dilate=1x2}, to_apply=max",
    ),
    "window_hypot": (
        ["f32[6]"],
        "f32[4] reduce-window(x0, z), window={size=3 stride=2 pad=2_2}, to_apply=hypot",
    ),
    "window_variadic": (
        ["f32[6,2]", "f32[6,2]"],
        "(f32[3,2], f32[3,2]) reduce-window(x0, x1, z, o), window={size=2x1 stride=2x1}, "
        "to_apply=sum_and_max",
    ),
    "window_running": (
        ["f32[6,3]"],
        "f32[6,3] reduce-window(x0, o), window={size=6x1 pad=5_0x0_0}, to_apply=add",
    ),
    "window_running_back": (
        ["f32[6,3]"],
        "f32[6,3] reduce-window(x0, o), window={size=1x3 pad=0_0x0_2}, to_apply=mul",
    ),
    "select_and_scatter": (
        ["f32[6,5]", "f32[3,2]"],
        "f32[6,5] select-and-scatter(x0, x1, o), window={size=2x3 stride=2x2}, select=ge, "
        "scatter=add",
    ),
    "select_and_scatter_overlap": (
        ["f32[5,5]", "f32[5,3]"],
        "f32[5,5] select-and-scatter(x0, x1, z), window={size=3x3 stride=1x2 pad=1_1x1_1}, "
        "select=ge, scatter=hypot",
    ),
    "map": (["f32[3,4]", "f32[3,4]"], "f32[3,4] map(x0, x1), dimensions={0,1}, to_apply=hypot"),
    "call": (["f32[]"], "f32[] call(x0), to_apply=twice"),
    "sort_descending": (
        ["s32[3,9]"],
        "s32[3,9] sort(x0), dimensions={1}, is_stable=true, to_apply=descending",
    ),
    "sort_rows_by_value": (
        ["f32[9,3]", "s32[9,3]"],
        "(f32[9,3], s32[9,3]) sort(x0, x1), dimensions={0}, is_stable=true, to_apply=by_value",
    ),
    "sort_two_keys": (
        ["s32[37]", "f32[37]"],
        "(s32[37], f32[37]) sort(x0, x1), dimensions={0}, is_stable=true, to_apply=by_both",
    ),
    "gather_rows": (
        ["f32[5,4]", "s32[2,3]"],
        "f32[2,3,4] gather(x0, x1), offset_dims={2}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=2, slice_sizes={1,4}",
    ),
    "gather_windows": (
        ["f32[5,4,3]", "s32[2,6]"],
        "f32[2,6,3] gather(x0, x1), offset_dims={0,2}, collapsed_slice_dims={1}, "
        "start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,1,3}",
    ),
    "gather_batched": (
        ["f32[3,5,4]", "u8[6,3,1]"],
        "f32[6,3,2] gather(x0, x1), offset_dims={2}, collapsed_slice_dims={2}, "
        "operand_batching_dims={0}, start_indices_batching_dims={1}, "
        "start_index_map={2}, index_vector_dim=2, slice_sizes={1,2,1}",
    ),
    "scatter_add": (
        ["f32[5,4]", "s32[9,1]", "f32[9,4]"],
        "f32[5,4] scatter(x0, x1, x2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    ),
    "scatter_windows": (
        ["f32[7,6]", "s32[9,2]", "f32[2,9,3]"],
        "f32[7,6] scatter(x0, x1, x2), update_window_dims={0,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=hypot",
    ),
    "scatter_set": (
        ["f32[7]", "s32[9]", "f32[9]"],
        "f32[7] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
    ),
    "scatter_variadic": (
        ["f32[7]", "f32[7]", "s32[9]", "f32[9]", "f32[9]"],
        "(f32[7], f32[7]) scatter(x0, x1, x2, x3, x4), update_window_dims={}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=sum_and_max",
    ),
    "scatter_batched": (
        ["f32[3,5]", "s32[4,3,1]", "f32[4,3]"],
        "f32[3,5] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={1}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=2, to_apply=mul",
    ),
    "batch_norm_training": (
        ["f32[4,3,2]", "f32[3]", "f32[3]"],
        "(f32[4,3,2], f32[3], f32[3]) batch-norm-training(x0, x1, x2), epsilon=0.1, "
        "feature_index=1",
    ),
    "batch_norm_grad": (
        ["f32[4,3,2]", "f32[3]", "f32[3]", "f32[3]", "f32[4,3,2]"],
        "(f32[4,3,2], f32[3], f32[3]) batch-norm-grad(x0, x1, x2, positive, x4), epsilon=0.1, "
        "feature_index=1",
        "positive = f32[3] multiply(x3, x3)",
    ),
    "batch_norm_inference": (
        ["f32[4,3,2]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"],
        "f32[4,3,2] batch-norm-inference(x0, x1, x2, x3, positive), epsilon=0.1, feature_index=1",
        "positive = f32[3] multiply(x4, x4)",
    ),
    "cholesky": (
        ["f32[2,3,3]"],
        "f32[2,3,3] cholesky(positive), lower=true",
        "positive = f32[2,3,3] dot(x0, x0), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "triangular_solve": (
        ["f32[2,3,3]", "f32[2,4,3]"],
        "f32[2,4,3] triangular-solve(x0, x1), left_side=false, lower=true, unit_diagonal=false, "
        "transpose_a=TRANSPOSE",
    ),
    "triangular_solve_upper": (
        ["c64[3,3]", "c64[3,2]"],
        "c64[3,2] triangular-solve(x0, x1), left_side=true, lower=false, unit_diagonal=true, "
        "transpose_a=ADJOINT",
    ),
    "fft": (["c64[3,4,5]"], "c64[3,4,5] fft(x0), fft_type=FFT, fft_length={4,5}"),
    "ifft": (["c64[3,5]"], "c64[3,5] fft(x0), fft_type=IFFT, fft_length={5}"),
    "rfft": (["f32[4,6]"], "c64[4,4] fft(x0), fft_type=RFFT, fft_length={4,6}"),
    "irfft": (["c64[4,4]"], "f32[4,7] fft(x0), fft_type=IRFFT, fft_length={4,7}"),
    "topk": (["s32[3,9]"], "(s32[3,4], s32[3,4]) topk(x0), k=4, largest=true"),
}
"""name -> (parameter shapes, root, more instructions ...)."""


def conditional_on(index: int) -> tuple[list[str], str, str]:
    """A conditional of three branches with this index."""
    return (
        ["f32[]"],
        "f32[] conditional(index, x0, x0, x0), branch_computations={twice, thrice, minus}",
        f"index = s32[] constant({index})",
    )


PROGRAMS |= {f"conditional_{index}": conditional_on(index) for index in (-1, 0, 1, 2, 3)}
PROGRAMS["conditional_pred"] = (
    ["f32[]"],
    "f32[] conditional(yes, x0, x0), true_computation=twice, false_computation=minus",
    "yes = pred[] constant(true)",
)
