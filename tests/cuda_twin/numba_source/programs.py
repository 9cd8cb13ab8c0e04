"""Tiny programs of each class of kernels for a GPU, in HLO text.

A class is a schedule of loop nests, a module of `codegen/gpu/lower` that builds kernels itself, or
a way to join kernels in one launch.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tests.cuda_twin.lowered import compiled
from xla_server.buffers.code import Code
from xla_server.codegen.gpu import lower
from xla_server.codegen.gpu.joined import joined_grid
from xla_server.codegen.gpu.lower.thunks import thread_thunks
from xla_server.codegen.gpu.schedules.boxes import box_kernel
from xla_server.codegen.gpu.schedules.table import SCHEDULES, scheduled_by
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module

_LOWER = Path(lower.__file__).parent
_THUNKS = Path(thread_thunks.__file__)

_ADD = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
"""
_SORTED = """
before { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main { x = f32[LENGTH] parameter(0)
  ROOT r = f32[LENGTH] sort(x), dimensions={0}, to_apply=before }
"""
_SUMMED = """
ENTRY main { x = f32[SHAPE] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[LEFT] reduce(x, zero), dimensions={DIMENSION}, to_apply=add }
"""
_RUNNING = """
ENTRY main { x = f32[LENGTH] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[LENGTH] reduce-window(x, zero), window={size=LENGTH pad=BEFORE_0}, to_apply=add }
"""


def _summed(shape: str, left: str, dimension: int) -> str:
    words = {"SHAPE": shape, "LEFT": left, "DIMENSION": str(dimension)}
    return _ADD + _with(_SUMMED, words)


def _running(length: int) -> str:
    return _ADD + _with(_RUNNING, {"LENGTH": str(length), "BEFORE": str(length - 1)})


def _with(text: str, words: Mapping[str, str]) -> str:
    for word, number in words.items():
        text = text.replace(word, number)
    return text


CLASSES: Mapping[str, str] = {
    "elements": """
ENTRY main { x = f32[37] parameter(0)
  e = f32[37] exponential(x)
  h = bf16[37] convert(e)
  ROOT r = f32[37] convert(h) }
""",
    "transposes": """
ENTRY main { x = f32[19,21] parameter(0)
  ROOT r = f32[21,19] transpose(x), dimensions={1,0} }
""",
    "products": """
ENTRY main { x = f32[16,18] parameter(0)
  y = f32[18,17] parameter(1)
  ROOT r = f32[16,17] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
""",
    "rows": _summed("3,70", "3", 1),
    "blocks": _summed("2,1100", "2", 1),
    "columns": _summed("70,5", "5", 0),
    "threads": _summed("3,40", "40", 0),
    "boxes": """
ENTRY main { x = f32[3,5] parameter(0)
  y = f32[3,7] parameter(1)
  ROOT r = f32[3,12] concatenate(x, y), dimensions={1} }
""",
    "joined": """
ENTRY main { x = f32[30] parameter(0)
  y = f32[9,40] parameter(1)
  a = f32[30] negate(x)
  b = f32[40,9] transpose(y), dimensions={1,0}
  ROOT r = (f32[30], f32[40,9]) tuple(a, b) }
""",
    "merge_sort": _with(_SORTED, {"LENGTH": "40"}),
    "sort": _with(_SORTED, {"LENGTH": "2100"}),
    "scan": _running(100),
    "scan in parts": _running(1030),
    "scatter": _ADD
    + """
ENTRY main { x = f32[4,3] parameter(0)
  at = s32[9,1] parameter(1)
  u = f32[9,3] parameter(2)
  ROOT r = f32[4,3] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }
""",
    "select_and_scatter": _ADD
    + """
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=GE }
ENTRY main { x = f32[2,5,6] parameter(0)
  u = f32[2,2,3] parameter(1)
  zero = f32[] constant(0)
  ROOT r = f32[2,5,6] select-and-scatter(x, u, zero), window={size=1x3x2 stride=1x2x2},
    select=ge, scatter=add }
""",
    "random": """
ENTRY main { state = u64[2] parameter(0)
  drawn = (u64[2], u32[9]) rng-bit-generator(state), algorithm=rng_philox
  other = (u64[2], u32[9]) rng-bit-generator(state), algorithm=rng_three_fry
  a = u32[9] get-tuple-element(drawn), index=1
  b = u32[9] get-tuple-element(other), index=1
  ROOT r = (u32[9], u32[9]) tuple(a, b) }
""",
    "while_loop": """
body { state = (s32[], s32[], f32[9]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  limit = s32[] get-tuple-element(state), index=1
  v = f32[9] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  element = f32[1] dynamic-slice(v, i), dynamic_slice_sizes={1}
  doubled = f32[1] add(element, element)
  updated = f32[9] dynamic-update-slice(v, doubled, i)
  ROOT new = (s32[], s32[], f32[9]) tuple(next, limit, updated) }
condition { state = (s32[], s32[], f32[9]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  limit = s32[] get-tuple-element(state), index=1
  ROOT less = pred[] compare(i, limit), direction=LT }
ENTRY main { x = f32[9] parameter(0)
  limit = s32[] parameter(1)
  start = s32[] constant(0)
  begin = (s32[], s32[], f32[9]) tuple(start, limit, x)
  loop = (s32[], s32[], f32[9]) while(begin), condition=condition, body=body
  ROOT last = f32[9] get-tuple-element(loop), index=2 }
""",
    "fft": """
ENTRY main { x = c64[2,5] parameter(0)
  ROOT r = f32[2,8] fft(x), fft_type=IRFFT, fft_length={8} }
""",
}
"""The program of each class, by the name of the schedule or module; and some with another form."""

LEFT_OUT = {
    "triangular": "It makes tables of the addresses of arrays, which differ between machines.",
    "merging": "A part of the kernels of merge_sort.",
    "scan_levels": "A part of the kernels of scan.",
}
"""Modules without a program, with the reason."""


def program(name: str) -> HloModule:
    """Return the program of a class."""
    return parse_module(f"HloModule m\n{CLASSES[name]}")


def emitted() -> Iterator[str]:
    """Yield every class that there is, from the table of schedules and the source of lowerings."""
    yield from (schedule.name for schedule in SCHEDULES)
    yield from ("boxes", "joined")
    for path in _LOWER.rglob("*.py"):
        if "thread_thunks import" in path.read_text():
            yield path.stem


def with_classes(module: HloModule) -> tuple[Code, set[str]]:
    """Return the rows of a module, and the classes of the kernels in them."""
    found: set[str] = set()

    def record(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "return" and code is scheduled_by.__code__ and result is not None:
            found.add(result[0].name)
        elif event == "return" and code is joined_grid.__code__ and result is not None:
            found.add("joined")
        elif event == "call" and code is box_kernel.__code__:
            found.add("boxes")
        elif event == "call" and code is thread_thunks.thread_thunk.__code__:
            found.add(_caller(frame))

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        return compiled(module), found
    finally:
        sys.setprofile(before)


def _caller(frame: FrameType) -> str:
    """Return the module of lowerings that asked for a kernel."""
    outer = frame.f_back
    while outer is not None:
        path = Path(outer.f_code.co_filename)
        if path != _THUNKS and path.is_relative_to(_LOWER):
            return path.stem
        outer = outer.f_back
    raise AssertionError("no module of lowerings asked for the kernel")
