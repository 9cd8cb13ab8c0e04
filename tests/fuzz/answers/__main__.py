"""`python -m tests.fuzz.answers --seconds 600`: random modules on cpu, interpreter and jaxlib."""

import secrets
import sys

from tests.command_line import command_line
from tests.fuzz.answers.fuzzing import Counts, fuzz, seeds_for
from tests.fuzz.answers.sides import Side


def main() -> int:
    parser = command_line("tests.fuzz.answers", __doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the first one; by default any")
    parser.add_argument("--count", type=int, default=None, help="so many seeds, not seconds")
    chosen = parser.parse_args()
    first = secrets.randbelow(1 << 40) if chosen.seed is None else chosen.seed
    print(f"seeds from {first}", flush=True)
    sides = [Side("cpu"), Side("jaxlib")]
    counts = Counts()
    seeds = (
        seeds_for(chosen.seconds, first)
        if chosen.count is None
        else range(first, first + chosen.count)
    )
    found = 0
    for text in fuzz(seeds, sides, counts):
        found += 1
        print(f"--- difference {found}\n{text}\n", flush=True)
    for side in sides:
        side.close()
    print(f"{counts}: {found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
