"""Programs in HLO text around one operation each, for operations that contract, reduce or index.

A block of `tests/data/hlo/programs.txt` has a name and shapes of parameters, then the root, then
instructions before it.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Argument = Any

_FOLDER = Path(__file__).parents[1] / "data" / "hlo"
_CALLED = (_FOLDER / "called.hlo").read_text(encoding="utf-8")
"""Computations that programs call."""

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
    return f"HloModule m\n{_CALLED}\nENTRY entry {{ {body} }}\n"


def loop(
    kind: str,
    lines: str,
    *,
    called: str = "",
    count: str = "count = u32[] parameter(1)",
) -> str:
    """Return a module whose loop replaces the argument, of a type, `count` times.

    In its body `lines` define `new` from `v`; they may call the computations of `called`.
    """
    state = f"(u32[], {kind})"
    return f"""HloModule loop
{called}
body {{ state = {state} parameter(0)
  n = u32[] get-tuple-element(state), index=0
  v = {kind} get-tuple-element(state), index=1
  one = u32[] constant(1)
  left = u32[] subtract(n, one)
  {lines}
  ROOT next = {state} tuple(left, new) }}
condition {{ state = {state} parameter(0)
  n = u32[] get-tuple-element(state), index=0
  zero = u32[] constant(0)
  ROOT goes_on = pred[] compare(n, zero), direction=GT }}
ENTRY e {{ x = {kind} parameter(0)
  {count}
  begin = {state} tuple(count, x)
  end = {state} while(begin), condition=condition, body=body
  ROOT result = {kind} get-tuple-element(end), index=1 }}
"""


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


def _read(text: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield name, and shapes of parameters, root and instructions before it, of each program."""
    for block in re.split(r"\n(?=\S)", text.rstrip("\n")):
        head, *lines = block.split("\n")
        name, _, shapes = head.partition(":")
        yield name, (shapes.split(), *(line.strip() for line in lines))


PROGRAMS: dict[str, tuple[Any, ...]] = dict(
    _read((_FOLDER / "programs.txt").read_text(encoding="utf-8"))
)
