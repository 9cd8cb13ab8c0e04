"""Computations nested in each other: calls, loops and conditionals."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.depth.cases import Case
from xla_client.programs.computation import Computation
from xla_server.ir.exporter import export_module
from xla_server.ir.text.parser import parse_module

_STATE = "(u32[], u32[])"

_SQUARE = """level0 {
  x = u32[] parameter(0)
  ROOT y = u32[] multiply(x, x)
}"""

_CALL = """level{n} {{
  x = u32[] parameter(0)
  n = u32[] constant({n})
  y = u32[] call(x), to_apply=level{below}
  ROOT z = u32[] add(y, n)
}}"""

_CHOICE = """level{n} {{
  x = u32[] parameter(0)
  n = u32[] constant({n})
  limit = u32[] constant(4000000)
  higher = u32[] add(limit, n)
  small = pred[] compare(x, higher), direction=LT
  y = u32[] conditional(small, x, x), true_computation=level{below}, false_computation=end
  ROOT z = u32[] add(y, n)
}}"""

_END = """end {
  x = u32[] parameter(0)
  ROOT y = u32[] negate(x)
}"""

_CALL_ENTRY = """ENTRY e {{
  x = u32[] parameter(0)
  ROOT y = u32[] call(x), to_apply=level{below}
}}"""

_TEST = f"""test {{
  s = {_STATE} parameter(0)
  i = u32[] get-tuple-element(s), index=0
  one = u32[] constant(1)
  ROOT t = pred[] compare(i, one), direction=LT
}}"""

_BODY = f"""level0 {{
  s = {_STATE} parameter(0)
  x = u32[] get-tuple-element(s), index=1
  one = u32[] constant(1)
  y = u32[] multiply(x, x)
  ROOT r = {_STATE} tuple(one, y)
}}"""

_LOOP = f"""level{{n}} {{{{
  s = {_STATE} parameter(0)
  x = u32[] get-tuple-element(s), index=1
  zero = u32[] constant(0)
  begin = {_STATE} tuple(zero, x)
  w = {_STATE} while(begin), condition=test, body=level{{below}}
  y = u32[] get-tuple-element(w), index=1
  n = u32[] constant({{n}})
  z = u32[] add(y, n)
  one = u32[] constant(1)
  ROOT r = {_STATE} tuple(one, z)
}}}}"""

_LOOP_ENTRY = f"""ENTRY e {{{{
  x = u32[] parameter(0)
  zero = u32[] constant(0)
  begin = {_STATE} tuple(zero, x)
  w = {_STATE} while(begin), condition=test, body=level{{below}}
  ROOT y = u32[] get-tuple-element(w), index=1
}}}}"""


def _nested(first: str, level: str, entry: str, depth: int) -> Case:
    """The square of an argument, to which each level around it adds its number."""
    levels = [level.format(n=n, below=n - 1) for n in range(1, depth)]
    text = "\n".join(["HloModule nested", first, *levels, entry.format(below=depth - 1)])
    computation = Computation(export_module(parse_module(text)))
    return Case(computation, (np.uint32(3),), (np.uint32(9 + depth * (depth - 1) // 2),))


def calls(depth: int) -> Case:
    """Each level calls the next one."""
    return _nested(_SQUARE, _CALL, _CALL_ENTRY, depth)


def loops(depth: int) -> Case:
    """Each level is a loop that runs once, around another one."""
    return _nested(f"{_TEST}\n{_BODY}", _LOOP, _LOOP_ENTRY, depth)


def conditionals(depth: int) -> Case:
    """Each level chooses the next one, rather than the end."""
    return _nested(f"{_END}\n{_SQUARE}", _CHOICE, _CALL_ENTRY, depth)


NESTING: Mapping[str, Callable[[int], Case]] = MappingProxyType(
    {"calls": calls, "loops": loops, "conditionals": conditionals}
)
"""Programs of a depth of nesting, by what is nested."""
