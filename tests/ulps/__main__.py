"""`make ulps`: measure the errors of elementary functions, and write docs/FUNCTIONS.md.

FUNCTIONS=exp,tanh and TYPES=f32 choose, WHOLE=1 takes every f32 rather than one of each 256, which
is an hour of one processor for all functions. Measurements are written chunk by chunk, so that an
interrupted sweep goes on where it was.
"""

import sys
import time
from pathlib import Path

from tests.command_line import command_line
from tests.ulps.functions import DTYPE
from tests.ulps.measuring import COMPLEX, EVERY, WHOLE, Error, Notes, bound_of, measured, wanted
from tests.ulps.page import PATH, errors_of, page

NOTES = Path(__file__).parents[2] / "build" / "ulps.json"


def main(arguments: list[str]) -> int:
    """Measure what the arguments say; 1 where an error exceeds its bound."""
    parser = command_line("tests.ulps", __doc__)
    parser.add_argument("--functions", default="", help="comma-separated; all of them by default")
    parser.add_argument("--types", default="", help="of f16, bf16, f32, f64, c64 and c128")
    parser.add_argument("--whole", action="store_true", help="every f32, which takes minutes each")
    options = parser.parse_args(arguments)
    functions = _chosen(options.functions, sorted({function for function, _ in EVERY}))
    types = _chosen(options.types, [*DTYPE, *COMPLEX])
    notes = Notes(NOTES)
    errors = errors_of(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    exceeded = False
    for function in functions:
        for name in types:
            if (function, name) not in EVERY:
                continue
            error = _measure(notes, function, name, WHOLE if options.whole else WHOLE >> 8)
            exceeded |= error.ulps > bound_of(function, name)
            known = errors.get((function, name))
            if known is None or known.count <= error.count:
                errors[function, name] = error
        PATH.write_text(page(errors), encoding="utf-8")
    return int(exceeded)


def _chosen(words: str, known: list[str]) -> list[str]:
    chosen = [word for word in words.split(",") if word] or known
    strange = sorted(set(chosen) - set(known))
    if strange:
        sys.exit(f"must be of {', '.join(known)}, got {', '.join(strange)}")
    return chosen


def _measure(notes: Notes, function: str, name: str, count: int) -> Error:
    start = time.perf_counter()
    count = wanted(function, name, count)
    error = notes.get(function, name, count)
    for number, found in enumerate(measured(function, name, count, error)):
        error = found
        if number % 64 == 63 or found.count == count:
            notes.put(function, name, count, found)
    assert error is not None
    print(_told(function, name, error, time.perf_counter() - start), flush=True)
    return error


def _told(function: str, name: str, error: Error, seconds: float) -> str:
    bound = bound_of(function, name)
    at = ", ".join(f"{value:.9g}" for value in error.at)
    verdict = "  EXCEEDED" if error.ulps > bound else ""
    return (
        f"{function:9}{name:5}{error.ulps:9.3f} of {bound:5g} ulp in {seconds:4.0f} s"
        f" at {at}{verdict}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
