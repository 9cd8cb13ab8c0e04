"""docs/FUNCTIONS.md: how exact each elementary function is, and what it makes of special values."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.ulps.functions import BINARY, DTYPE, REFERENCE, computed
from tests.ulps.measuring import COMPLEX, EVERY, NARROW, WHOLE, Error, bound_of
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE as RULES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise.elementwise_table import ROWS

PATH = Path(__file__).parents[2] / "docs" / "FUNCTIONS.md"
Errors = Mapping[tuple[str, str], Error]

_OF_FLOATS = {o: ROWS[o] for o, rule in RULES.items() if ElementType.F32 in rule.types.members}


def _listed(opcodes: Iterable[Opcode]) -> str:
    """The opcodes as lines of an item of a list."""
    return textwrap.fill(", ".join(opcodes), 98, subsequent_indent="  ", break_on_hyphens=False)


_FLUSHING = _listed(
    o for o, row in _OF_FLOATS.items() if not row.keeps_subnormals and o is not Opcode.POWER
)
_KEEPING = {
    o: row for o, row in _OF_FLOATS.items() if row.keeps_subnormals and o is not Opcode.REMAINDER
}
_MOVES = _listed(o for o, row in _KEEPING.items() if row.ulps is None)
_IDENTITIES = _listed(o for o, row in _KEEPING.items() if row.ulps is not None)
_COMPLEX = _listed(
    o
    for o, rule in RULES.items()
    if ElementType.C64 in rule.types.members and not ROWS[o].widens_complex
)

_INTRODUCTION = f"""\
# Elementary functions

Errors of results of the `cpu` platform, in units in the last place (ULP) of the
exact result; `make ulps` measures and writes this page. Bounds are promises, kept by tests
(`server/xla_server/ops/elementwise/rows`); "measured" is the largest error found.

- **Reference**: numpy's and scipy's functions in f64 for f32, f16 and bf16, and in x87's 80 bits
  for f64. 0.5 is a correctly rounded result, 0 an exact one.
- **Where**: `every` number of the type, one of each 256 bit patterns (`1/256`), or that many
  samples of all exponents, denser where a function is not trivial. Two operands have too
  many pairs to take all, so those are always samples.
- f16 and bf16 are computed in f32 and rounded again.
- A result that rounds to infinity must be infinite, NaN must be NaN, and zeros have their signs.
- Subnormal numbers are measured as they are, in the processor's ordinary mode. Programs run with
  another; see below.
- logistic is its definition in XLA, 1 / (1 + e^-x): zero where e^-x is infinite in its type.
- Functions of complex numbers (c64, c128) are measured normwise, in ULP of the exact result's
  magnitude, on both platforms: the larger error counts (`tests/ulps/complex_errors.py`, against
  numbers of 80 bits). Those of c64 are computed in c128, but for
  {_COMPLEX}.
  A part that is subnormal is zero. imag, real, negate, maximum and minimum are exact.
"""

_SUBNORMAL_NUMBERS = f"""\
## Subnormal numbers

One rule for both platforms, that of XLA's CPU backend
(`server/xla_server/ops/elementwise/subnormal_rule.py`):

- Arithmetic on f32, f64 and bf16 takes subnormal operands for zeros of their sign, and makes such
  zeros of subnormal results. The operations are
  {_FLUSHING},
  comparisons in IEEE's order, sums and products.
- Moves and changes of bits keep them:
  {_MOVES}, select, copies,
  reduce-precision, comparisons in the total order, conversions between f32 and bf16.
- Functions that are their operand near zero keep them:
  {_IDENTITIES};
  but tanh of f64 flushes. A remainder keeps its dividend and results, and is NaN for a
  subnormal divisor. A power takes operands as they are and flushes results.
- Operations that compiled programs leave out change no value, subnormal numbers included:
  max(x, x), min(x, x), clamp(x, x, x), x * 1, x / 1, x - 0, x + -0, power(x, 1). Powers of a
  constant -1, 0.5, 2, 3 or 4 are quotients, roots and products, and flush.
- f16 and narrower types are computed in f32, where their subnormal numbers are ordinary ones.

jaxlib differs in cbrt (-5.6e-16 for every subnormal number), in atan2 of two subnormal numbers
(NaN, or a quarter turn in f64) and in power with an exponent of 0.5 that is no constant (one root
for all).
"""

_VALUES = {
    "0": 0.0,
    "-0": -0.0,
    "1": 1.0,
    "-1": -1.0,
    "inf": np.inf,
    "-inf": -np.inf,
    "nan": np.nan,
}
_PAIRS = {
    "atan2": ("0, -0", "-0, -0", "0, 0", "-0, -1", "1, 0", "inf, inf", "inf, -inf", "1, inf"),
    "pow": ("nan, 0", "1, nan", "-1, inf", "0, -1", "-0, -1", "-inf, 3", "-8, 0.5", "0, 0"),
    "rem": ("1, 0", "inf, 1", "5, inf", "-5, 3", "5, -3", "-4, 2", "nan, 1", "0, 1"),
}


def page(errors: Errors) -> str:
    """The whole page with these measurements."""
    rows = [
        "| function | type | bound | measured | where | at |",
        "|---|---|---:|---:|---|---|",
        *(_row(function, name, errors.get((function, name))) for function, name in EVERY),
    ]
    return "\n".join([_INTRODUCTION, *rows, "", *_special_values(), "", _SUBNORMAL_NUMBERS])


def errors_of(text: str) -> dict[tuple[str, str], Error]:
    """The measurements that a page states."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and (cells[0].strip("`"), cells[1]) in EVERY and cells[4]:
            name = cells[1]
            plain = complex if name in COMPLEX else float
            at = tuple(plain(number) for number in cells[5].split(","))
            found[cells[0].strip("`"), name] = Error(float(cells[3]), at, _count(cells[4], name))
    return found


def _row(function: str, name: str, error: Error | None) -> str:
    bound = f"{bound_of(function, name):g}"
    if error is None:
        return f"| `{function}` | {name} | {bound} | | | |"
    at = ", ".join(_number(value) for value in error.at)
    where = _where(error.count, name, function)
    return f"| `{function}` | {name} | {bound} | {error.ulps:.3f} | {where} | {at} |"


def _number(value: complex) -> str:
    return f"{value:.9g}"


def _where(count: int, name: str, function: str) -> str:
    if function in BINARY:
        return f"{count} samples"
    if name == "f32":
        return "every" if count == WHOLE else f"1/{WHOLE // count}"
    return "every" if name in NARROW else f"{count} samples"


def _count(where: str, name: str) -> int:
    if where == "every":
        return WHOLE if name == "f32" else 1 << 16
    part = re.fullmatch(r"1/(\d+)", where)
    return WHOLE // int(part[1]) if part else int(where.split()[0])


def _special_values() -> list[str]:
    """Tables of what kernels give, the same for every type."""
    unary = [function for function in REFERENCE if function not in BINARY]
    lines = [
        "## Special values",
        "",
        f"| x | {' | '.join(_VALUES)} |",
        f"|---|{'---|' * len(_VALUES)}",
    ]
    for function in unary:
        results = _results(function, [list(_VALUES.values())])
        lines.append(f"| `{function}` | {' | '.join(results)} |")
    for function, given in _PAIRS.items():
        columns = [[float(word) for word in pair.split(",")] for pair in given]
        results = _results(function, list(map(list, zip(*columns, strict=True))))
        lines += ["", f"| x, y | {' | '.join(given)} |", f"|---|{'---|' * len(given)}"]
        lines.append(f"| `{function}` | {' | '.join(results)} |")
    return lines


def _results(function: str, operands: list[list[float]]) -> list[str]:
    arrays = [np.array(operand, DTYPE["f32"]) for operand in operands]
    return [_short(value) for value in computed(function, *arrays)]


def _short(value: Any) -> str:
    return "nan" if np.isnan(value) else f"{value:.6g}"
