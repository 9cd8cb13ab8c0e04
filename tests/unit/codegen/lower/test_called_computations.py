"""Computations on scalars that are more than formulas, in every operation that calls them."""

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.passes.passing import imported
from xla_contract.errors import InvalidArgumentError
from xla_server.backends.compile_options import CompileOptions
from xla_server.passes.framework.selection import PassOptions

COMMON = """HloModule m
same { p = f32[] parameter(0)
  ROOT q = f32[] copy(p) }
add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q) }
larger { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] maximum(p, q) }
less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT }
at_least { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=GE }
is_below { s = (f32[], f32[]) parameter(0)
  n = f32[] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  ROOT r = pred[] compare(n, limit), direction=LT }
counted { s = (f32[], f32[]) parameter(0)
  n = f32[] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  one = f32[] constant(1)
  next = f32[] add(n, one)
  ROOT t = (f32[], f32[]) tuple(next, limit) }
summed { x = f32[] parameter(0)
  c = f32[] parameter(1)
  s = f32[] add(c, x)
  ROOT t = (f32[], f32[]) tuple(s, s) }
looped { x = f32[] parameter(0)
  zero = f32[] constant(0)
  s = (f32[], f32[]) tuple(zero, x)
  w = (f32[], f32[]) while(s), condition=is_below, body=counted
  ROOT n = f32[] get-tuple-element(w), index=0 }
"""

_WIDE = "w = f32[4] broadcast(x), dimensions={}"
_ONE = "w = f32[1] reshape(x)"
_SQUARE = ("s = f32[] multiply(x, x)", "w = f32[1,1] reshape(s)")
_THIRD = ("part = f32[1] slice(found), slice={[2:3]}", "y = f32[] reshape(part)")
_ONLY = "y = f32[] reshape(found)"
_FRACTION = (
    "bits = u32[] get-tuple-element(t), index=1",
    "number = f32[] convert(bits)",
    "scale = f32[] constant(1e-12)",
    "small = f32[] multiply(number, scale)",
    "y = f32[] add(x, small)",
)

BODIES: dict[str, tuple[str, ...]] = {
    "barrier": ("y = f32[] opt-barrier(x)",),
    "dependency": ("t = token[] after-all()", "y = f32[] add-dependency(x, t)"),
    "bits": ("i = s32[] bitcast-convert(x)", "y = f32[] bitcast-convert(i)"),
    "stochastic": (
        "random = u32[] constant(7)",
        "i = s32[] stochastic-convert(x, random)",
        "y = f32[] convert(i)",
    ),
    "array": (
        _WIDE,
        "z = f32[] constant(0)",
        "y = f32[] reduce(w, z), dimensions={0}, to_apply=larger",
    ),
    "update": (
        "z = f32[] constant(0)",
        "w = f32[4] broadcast(z), dimensions={}",
        "u = f32[1] reshape(x)",
        "two = s32[] constant(2)",
        "found = f32[4] dynamic-update-slice(w, u, two)",
        *_THIRD,
    ),
    "branch": (
        "three = f32[] constant(3)",
        "p = pred[] compare(x, three), direction=LT",
        "y = f32[] conditional(p, x, x), true_computation=same, false_computation=looped",
    ),
    "branches": (
        "i = s32[] convert(x)",
        "y = f32[] conditional(i, x, x, x), branch_computations={same, looped, same}",
    ),
    "loop": ("y = f32[] call(x), to_apply=looped",),
    "fused loop": ("y = f32[] fusion(x), kind=kLoop, calls=looped",),
    "map": ("y = f32[] map(x), dimensions={}, to_apply=looped",),
    "sort": (_WIDE, "found = f32[4] sort(w), dimensions={0}, to_apply=less", *_THIRD),
    "scan": (
        _ONE,
        "z = f32[] constant(0)",
        "t = (f32[1], f32[]) scan(w, z), dimensions={0}, num_carries=1, to_apply=summed",
        "y = f32[] get-tuple-element(t), index=1",
    ),
    "scatter": (
        "z = f32[] constant(0)",
        "w = f32[4] broadcast(z), dimensions={}",
        "two = s32[1] constant({2})",
        "found = f32[4] scatter(w, two, x), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
        *_THIRD,
    ),
    "select-and-scatter": (
        _WIDE,
        "u = f32[1] reshape(x)",
        "z = f32[] constant(0)",
        "s = f32[4] select-and-scatter(w, u, z), window={size=4}, select=at_least, scatter=add",
        "y = f32[] reduce(s, z), dimensions={0}, to_apply=larger",
    ),
    "fft": (
        _ONE,
        "c = c64[1] fft(w), fft_type=RFFT, fft_length={1}",
        "found = f32[1] real(c)",
        _ONLY,
    ),
    "cholesky": (*_SQUARE, "found = f32[1,1] cholesky(w), lower=true", _ONLY),
    "lapack": (
        *_SQUARE,
        'f = (f32[1,1], s32[]) custom-call(w), custom_call_target="lapack_spotrf_ffi", '
        'api_version=API_VERSION_TYPED_FFI, backend_config="{uplo = 76 : ui8}"',
        "found = f32[1,1] get-tuple-element(f), index=0",
        _ONLY,
    ),
    "philox": (
        "state = u64[2] constant({1, 2})",
        "t = (u64[2], u32[]) rng-bit-generator(state), algorithm=rng_philox",
        *_FRACTION,
    ),
    "threefry": (
        "state = u64[2] constant({1, 2})",
        "t = (u64[2], u32[]) rng-bit-generator(state), algorithm=rng_three_fry",
        *_FRACTION,
    ),
}
"""A function of x that is x, or so little more that the order of numbers stays."""

CALLERS: dict[str, tuple[int, str, str, tuple[str, ...]]] = {
    "map": (1, "p0", "f32[] copy(y)", ("f32[2,3] map(a), dimensions={0,1}, to_apply={f}",)),
    "reduce": (
        2,
        "p1",
        "f32[] maximum(p0, y)",
        (
            "f32[2] reduce(a, z), dimensions={1}, to_apply={f}",
            "f32[] reduce(a, z), dimensions={0,1}, to_apply={f}",
        ),
    ),
    "reduce-window": (
        2,
        "p1",
        "f32[] add(p0, y)",
        ("f32[2,2] reduce-window(a, z), window={size=2x2 pad=1_0x0_0}, to_apply={f}",),
    ),
    "sort": (
        2,
        "p0",
        "pred[] compare(y, p1), direction=LT",
        ("f32[2,3] sort(a), dimensions={1}, to_apply={f}",),
    ),
    "scatter": (
        2,
        "p1",
        "f32[] add(p0, y)",
        (
            "f32[2,3] scatter(a, i, a), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply={f}",
        ),
    ),
    "select": (
        2,
        "p0",
        "pred[] compare(y, p1), direction=GE",
        ("f32[2,3] select-and-scatter(a, s, z), window={size=2x2}, select={f}, scatter=add",),
    ),
    "scatter of select": (
        2,
        "p1",
        "f32[] add(p0, y)",
        ("f32[2,3] select-and-scatter(a, s, z), window={size=2x2}, select=at_least, scatter={f}",),
    ),
}
"""Parameters, which of them is x, what is made of y, and the instructions that call it."""


def program(caller: str, bodies: dict[str, tuple[str, ...]]) -> str:
    """A module that calls each of the bodies, the results in a tuple."""
    count, x, root, calls = CALLERS[caller]
    text, lines = COMMON, []
    for number, body in enumerate(bodies.values()):
        name = f"called{number}"
        parameters = "".join(f"  p{n} = f32[] parameter({n})\n" for n in range(count))
        inside = "".join(f"  {line}\n" for line in body)
        given = f"  x = f32[] copy({x})\n"
        text += f"{name} {{\n{parameters}{given}{inside}  ROOT out = {root}\n}}\n"
        lines += [call.replace("{f}", name) for call in calls]
    text += "ENTRY main {\n  a = f32[2,3] parameter(0)\n  z = f32[] constant(0)\n"
    text += "  i = s32[2,1] constant({{1}, {1}})\n  s = f32[1,2] constant({{5, 7}})\n"
    text += "".join(f"  r{n} = {line}\n" for n, line in enumerate(lines))
    shapes = ", ".join(line.split(" ")[0] for line in lines)
    return (
        text + f"  ROOT t = ({shapes}) tuple({', '.join(f'r{n}' for n in range(len(lines)))})\n}}"
    )


FEW = ("barrier", "bits", "array", "loop", "sort", "cholesky", "philox")
"""Bodies that are enough to see how an operation calls them."""

A = np.array([[3, 1, 2], [6, 4, 5]], np.float32)


@pytest.mark.parametrize("caller", CALLERS)
def test_results_are_those_of_the_interpreter(caller: str) -> None:
    names = list(BODIES if caller == "map" else FEW)
    module = imported(program(caller, {name: BODIES[name] for name in names}))
    calls = CALLERS[caller][3]
    results = zip(on_cpu(module, [A]), interpreted(module, [A]), strict=True)
    for number, (ours, expected) in enumerate(results):
        body = names[number // len(calls)]
        try:
            assert_equal_bits(ours, expected)
        except AssertionError as error:
            raise AssertionError(f"{body}: {ours} and {expected}") from error


@pytest.mark.parametrize(
    "made", ["f32[7] map(a), dimensions={0}, to_apply=f", "f32[7] call(a), to_apply=g"]
)
def test_a_fusion_may_hold_anything_with_every_optional_pass_left_out(made: str) -> None:
    module = imported(
        f"""{COMMON}
f {{ x = f32[] parameter(0)
  ROOT y = f32[] fusion(x), kind=kLoop, calls=looped }}
sorted {{ x = f32[7] parameter(0)
  ROOT y = f32[7] sort(x), dimensions={{0}}, to_apply=less }}
g {{ x = f32[7] parameter(0)
  ROOT y = f32[7] fusion(x), kind=kOutput, calls=sorted }}
ENTRY main {{ a = f32[7] parameter(0)
  ROOT r = {made} }}"""
    )
    a = np.array([3, 1, 2, 6, 4, 5, 0], np.float32)
    nothing = CompileOptions(passes=PassOptions(level=0))
    (ours,) = on_cpu(module, [a], options=nothing)
    (expected,) = interpreted(module, [a])
    assert_equal_bits(ours, expected)


@pytest.mark.parametrize("caller", [caller for caller in CALLERS if caller != "map"])
def test_side_effects_are_refused_where_the_order_of_calls_is_open(caller: str) -> None:
    body = ("n = f32[] constant(0)", "y = f32[] rng(n, x), distribution=rng_uniform")
    with pytest.raises(InvalidArgumentError, match="must have no side effects, got rng %"):
        imported(program(caller, {"rng": body}))
