"""The work of compiling grows as programs do, counted in calls of functions."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign
from xla_server.ir.text.parser import parse_module


def training_step(count: int) -> str:
    """So many parameters, each made anew of itself and its gradient."""
    lines = []
    for n in range(count):
        lines += [
            f"p_{n} = f32[16,4] parameter({2 * n})",
            f"g_{n} = f32[16,4] parameter({2 * n + 1})",
            f"m_{n} = f32[16,4] multiply(p_{n}, g_{n})",
            f"x_{n} = f32[16,4] subtract(p_{n}, m_{n})",
        ]
    results = ", ".join(f"x_{n}" for n in range(count))
    lines.append(f"ROOT all = ({', '.join(['f32[16,4]'] * count)}) tuple({results})")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def updates(count: int) -> str:
    """One array that is written to again and again."""
    lines = ["x_0 = f32[1000] parameter(0)", "u = f32[4] parameter(1)", "i = s32[] parameter(2)"]
    lines += [f"x_{n} = f32[1000] dynamic-update-slice(x_{n - 1}, u, i)" for n in range(1, count)]
    return (
        "HloModule m\nENTRY e {\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[1000] negate(x_{count - 1})\n}}"
    )


def branches(count: int) -> str:
    """Choices one after the other, of which none is known."""
    lines = ["x_0 = f32[640] parameter(0)", "p = pred[] parameter(1)"]
    lines += [
        f"x_{n} = f32[640] conditional(p, x_{n - 1}, x_{n - 1}), true_computation=t, "
        "false_computation=f"
        for n in range(1, count)
    ]
    return (
        "HloModule m\nt { a = f32[640] parameter(0) ROOT r = f32[640] sort(a), dimensions={0}, "
        "to_apply=less }\nf { a = f32[640] parameter(0) ROOT r = f32[640] cosine(a) }\nENTRY e {\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[640] negate(x_{count - 1})\n}}"
    ).replace(
        "m\n",
        "m\nless { a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT r = pred[] compare(a, b), direction=LT }\n",
        1,
    )


def state(count: int) -> str:
    """A loop over so many arrays, each of which needs its neighbour."""
    shapes = ", ".join(["s32[]", *["f32[640]"] * count])
    reads = [f"a_{n} = f32[640] get-tuple-element(s), index={n + 1}" for n in range(count)]
    made = [f"b_{n} = f32[640] add(a_{n}, a_{(n + 1) % count})" for n in range(count)]
    results = ", ".join(["j", *(f"b_{n}" for n in range(count))])
    return f"""HloModule m
body {{ s = ({shapes}) parameter(0)
i = s32[] get-tuple-element(s), index=0
one = s32[] constant(1)
j = s32[] add(i, one)
{chr(10).join(reads + made)}
ROOT t = ({shapes}) tuple({results}) }}
test {{ s = ({shapes}) parameter(0)
i = s32[] get-tuple-element(s), index=0
n = s32[] constant(9)
ROOT r = pred[] compare(i, n), direction=LT }}
ENTRY e {{ p = ({shapes}) parameter(0)
ROOT w = ({shapes}) while(p), condition=test, body=body }}"""


def sums(count: int) -> str:
    """The sum of many arrays, which one loop reads."""
    lines = ["zero = f32[] constant(0)", "x_0 = f32[] parameter(0)"]
    for n in range(1, count):
        lines += [
            f"p_{n} = f32[8] parameter({n})",
            f"s_{n} = f32[] reduce(p_{n}, zero), dimensions={{0}}, to_apply=add",
            f"x_{n} = f32[] add(x_{n - 1}, s_{n})",
        ]
    body = "\n".join([*lines, f"ROOT r = f32[] negate(x_{count - 1})"])
    return f"""HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{ {body} }}"""


def products(count: int) -> str:
    """Choices of products with epilogues, each a computation of its own."""
    lines = ["x_0 = f32[16,16] parameter(0)", "p = pred[] parameter(1)"]
    parts = []
    for n in range(1, count):
        parts.append(
            f"t_{n} {{ a = f32[16,16] parameter(0) d = f32[16,16] dot(a, a), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = f32[16,16] negate(d) }\n"
            f"f_{n} {{ ROOT a = f32[16,16] parameter(0) }}"
        )
        lines.append(
            f"x_{n} = f32[16,16] conditional(p, x_{n - 1}, x_{n - 1}), true_computation=t_{n}, "
            f"false_computation=f_{n}"
        )
    body = "\n".join([*lines, f"ROOT r = f32[16,16] negate(x_{count - 1})"])
    return "HloModule m\n" + "\n".join(parts) + f"\nENTRY e {{ {body} }}"


def nested_calls(count: int) -> str:
    """Calls of which each but the last has another inside."""
    parts = ["f_0 { a = f32[640] parameter(0) ROOT r = f32[640] sine(a) }"]
    parts += [
        f"f_{n} {{ a = f32[640] parameter(0) b = f32[640] call(a), to_apply=f_{n - 1} "
        "ROOT r = f32[640] sine(b) }"
        for n in range(1, count)
    ]
    return (
        "HloModule m\n"
        + "\n".join(parts)
        + (
            f"\nENTRY e {{ x = f32[640] parameter(0) "
            f"ROOT r = f32[640] call(x), to_apply=f_{count - 1} }}"
        )
    )


def calls_of(function: Callable[[], Any]) -> int:
    """Return the number of function calls, those of C functions included."""
    count = 0

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "program", [training_step, updates, branches, state, sums, products, nested_calls]
)
def test_four_times_the_program_is_about_four_times_the_work(
    program: Callable[[int], str],
) -> None:
    small, large = (parse_module(program(count)) for count in (40, 160))
    # The first use fills caches.
    codes = [compile_module(module).code for module in (small, large)]
    calls = [calls_of(functools.partial(compile_module, module)) for module in (small, large)]
    assert calls[1] < 4.8 * calls[0]
    given = [frozenset(range(len(code.parameters))) for code in codes]
    placed = [
        calls_of(functools.partial(assign, code, numbers))
        for code, numbers in zip(codes, given, strict=True)
    ]
    assert placed[1] < 4.8 * placed[0]
