"""Checks of programs that run again and again, which a device has graphs for."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cuda.checks.outcomes import Check, assert_near
from tests.cuda.checks.platform_checks import Sides
from tests.executing import execute
from tests.in_threads import in_threads
from tests.unit.codegen.compiled import interpreted
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Executable
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module

KERNELS = """HloModule kernels
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[96,160] parameter(0)
  zero = f32[] constant(0)
  rows = f32[96] reduce(x, zero), dimensions={1}, to_apply=add
  across = f32[96,160] broadcast(rows), dimensions={0}
  centred = f32[96,160] subtract(x, across)
  columns = f32[160] reduce(centred, zero), dimensions={0}, to_apply=add
  product = f32[96,96] dot(centred, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = (f32[160], f32[96,96]) tuple(columns, product) }
"""

ALONE = KERNELS.replace("f32[96,96])", "f32[96,160])").replace(
    "(columns, product)", "(columns, centred)"
)
"""The same without the product, whose call is captured again for other addresses."""

_SIXTY_TIMES = """below { p = (s32[], f32[24,24]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(60)
  ROOT c = pred[] compare(i, limit), direction=LT }
ENTRY e {
  x = f32[24,24] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[24,24]) tuple(zero, x)
  end = (s32[], f32[24,24]) while(begin), body=body, condition=below
  ROOT r = f32[24,24] get-tuple-element(end), index=1 }
"""

LOOP = (
    """HloModule loop
body { p = (s32[], f32[24,24]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[24,24] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  product = f32[24,24] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bounded = f32[24,24] tanh(product)
  mirrored = f32[24,24] transpose(bounded), dimensions={1,0}
  sum = f32[24,24] subtract(bounded, mirrored)
  ROOT n = (s32[], f32[24,24]) tuple(next, sum) }
"""
    + _SIXTY_TIMES
)

CASES = (
    """HloModule cases
squared { x = f32[24,24] parameter(0)
  product = f32[24,24] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[24,24] tanh(product) }
turned { x = f32[24,24] parameter(0)
  ROOT t = f32[24,24] transpose(x), dimensions={1,0} }
turned_and_less { x = f32[24,24] parameter(0)
  t = f32[24,24] transpose(x), dimensions={1,0}
  ROOT s = f32[24,24] subtract(x, t) }
body { p = (s32[], f32[24,24]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[24,24] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  six = s32[] constant(6)
  left = s32[] remainder(i, six)
  chosen = s32[] subtract(left, one)
  case = f32[24,24] conditional(chosen, x, x, x),
    branch_computations={squared, turned, turned_and_less}
  three = s32[] constant(3)
  is_late = pred[] compare(left, three), direction=GE
  either = f32[24,24] conditional(is_late, case, case),
    true_computation=turned, false_computation=squared
  ROOT n = (s32[], f32[24,24]) tuple(next, either) }
"""
    + _SIXTY_TIMES
)

TURNS = 8


def graph_checks(sides: Sides) -> Iterator[Check]:
    """Yield the checks of a platform."""
    checked = _Checked(sides)
    for name, text in {"kernels": KERNELS, "a loop": LOOP, "cases": CASES}.items():
        yield f"{name} again", lambda text=text: checked.again(text)
        yield f"{name} again in threads", lambda text=text: checked.in_threads(text)
    for name, text in {"kernels": ALONE, "kernels and a product": KERNELS}.items():
        yield f"{name} on new memory", lambda text=text: checked.again(text, keeps=True)


class _Checked:
    """A platform under test."""

    def __init__(self, sides: Sides) -> None:
        self._platform = sides.device

    def again(self, text: str, *, keeps: bool = False) -> None:
        """Run again and again; all memory is new where arguments and results are kept."""
        module, kept = parse_module(text), list[Any]()
        executable = self._platform.compile(module, module.entry_program_shape)
        self._runs(module, executable, 0, kept if keeps else None)
        for output, expected in kept:
            assert_near(_arrays(output), expected)

    def in_threads(self, text: str) -> None:
        module = parse_module(text)
        executable = self._platform.compile(module, module.entry_program_shape)
        in_threads(lambda seed: self._runs(module, executable, seed), range(1, 4))

    def _runs(
        self, module: HloModule, executable: Executable, seed: int, kept: list[Any] | None = None
    ) -> None:
        device = self._platform.devices[0]
        shape = module.entry_program_shape.parameters[0].dimensions
        for turn in range(TURNS):
            drawn = np.random.default_rng((seed, turn)).standard_normal(shape)
            array = (drawn / 8).astype(np.float32)
            argument = self._platform.to_device(Literal.from_numpy(array), device)
            output: Any = execute(executable, device, [argument]).output
            expected = interpreted(module, [array])
            assert_near(_arrays(output), expected)
            if kept is not None:
                kept += [(argument, [array]), (output, expected)]


def _arrays(buffer: Any) -> list[Any]:
    return list(buffer.value) if isinstance(buffer.value, tuple) else [buffer.value]
