"""Computations of dynamic shape nested in each other: calls, loops and conditionals."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.depth.cases import Case
from xla_client.programs.computation import Computation
from xla_server.ir.exporter import export_module
from xla_server.ir.text.parser import parse_module

_SUM = """add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}"""

_INNERMOST = """level0 {
  x = s32[<=8] parameter(0)
  ROOT y = s32[<=8] abs(x)
}"""

_CALL = """level{n} {{
  x = s32[<=8] parameter(0)
  y = s32[<=8] call(x), to_apply=level{below}
  ROOT z = s32[<=8] negate(y)
}}"""

_CHOICE = """level{n} {{
  x = s32[<=8] parameter(0)
  zero = s32[] constant(0)
  total = s32[] reduce(x, zero), dimensions={{0}}, to_apply=add
  n = s32[] constant({n})
  less = pred[] compare(total, n), direction=LT
  y = s32[<=8] conditional(less, x, x), true_computation=end, false_computation=level{below}
  ROOT z = s32[<=8] negate(y)
}}"""

_END = """end {
  x = s32[<=8] parameter(0)
  ROOT y = s32[<=8] add(x, x)
}"""

_STATE = "(s32[], s32[<=8])"

_TEST = f"""test {{
  s = {_STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT t = pred[] compare(i, one), direction=LT
}}"""

_LOOP = f"""level{{n}} {{{{
  x = s32[<=8] parameter(0)
  zero = s32[] constant(0)
  begin = {_STATE} tuple(zero, x)
  w = {_STATE} while(begin), condition=test, body=body{{n}}
  ROOT y = s32[<=8] get-tuple-element(w), index=1
}}}}
body{{n}} {{{{
  s = {_STATE} parameter(0)
  x = s32[<=8] get-tuple-element(s), index=1
  y = s32[<=8] call(x), to_apply=level{{below}}
  z = s32[<=8] negate(y)
  one = s32[] constant(1)
  ROOT r = {_STATE} tuple(one, z)
}}}}"""

_ENTRY = """ENTRY e {{
  x = s32[8] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=8] set-dimension-size(x, n), dimensions={{0}}
  y = s32[<=8] call(d), to_apply=level{below}
  zero = s32[] constant(0)
  ROOT r = s32[] reduce(y, zero), dimensions={{0}}, to_apply=add
}}"""


def _nested(before: str, level: str, depth: int) -> Case:
    """The sum of the first five of eight numbers, negated once by each level but the innermost."""
    # A body stands before the loop that names it.
    levels = ["\n".join(reversed(_split(level.format(n=n, below=n - 1)))) for n in range(1, depth)]
    text = "\n".join(
        ["HloModule nested", _SUM, before, _INNERMOST, *levels, _ENTRY.format(below=depth - 1)]
    )
    computation = Computation(export_module(parse_module(text)))
    numbers = np.arange(100, 108, dtype=np.int32) + depth
    expected = np.int32((-1) ** (depth - 1)) * numbers[:5].sum(dtype=np.int32)
    return Case(computation, (numbers, np.int32(5)), (expected,))


def _split(computations: str) -> list[str]:
    return [text + "\n}" for text in computations.split("\n}") if text]


def calls(depth: int) -> Case:
    """Each level calls the next one."""
    return _nested("", _CALL, depth)


def loops(depth: int) -> Case:
    """Each level is a loop that runs once, around another one."""
    return _nested(_TEST, _LOOP, depth)


def conditionals(depth: int) -> Case:
    """Each level chooses the next one, rather than the end."""
    return _nested(_END, _CHOICE, depth)


DYNAMIC_NESTING: Mapping[str, Callable[[int], Case]] = MappingProxyType(
    {"calls": calls, "loops": loops, "conditionals": conditionals}
)
"""Programs of a depth of nesting, by what is nested."""
