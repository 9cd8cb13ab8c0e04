"""`make bench-sweep`: random programs drawn from a seed, against jaxlib's CPU backend.

Half of the programs are random graphs of jax.numpy calls, the others come from families with a
subject each (catalogue.py). Both sides run in one process and take turns, with their arguments on
the device; the shortest time of each counts. Programs that seem slow are measured again at the end,
for longer. `--only` takes numbers and parts of names of families: one number shows its program.
`--isa avx2` does without AVX-512 on both sides.
"""

import pathlib
import secrets
import tempfile
import time

from tests.benchmarks.isa import options_of
from tests.benchmarks.sweep.catalogue import chosen
from tests.benchmarks.sweep.inspecting import dump, show
from tests.benchmarks.sweep.measuring import Record
from tests.benchmarks.sweep.report import is_bad, report, write
from tests.benchmarks.sweep.workers import measured
from tests.command_line import command_line

COUNT = 600
SECONDS = 0.25
"""Time for which a program's two sides take turns."""

SECONDS_AGAIN = 1.5
SLOW = 1.5
"""Ratio from which on a program is measured again."""

PROGRESS_EVERY = 25


def main() -> None:
    """Measure, report, write; exits with 1 where a result is wrong or there is none."""
    parser = command_line("tests.benchmarks.sweep", __doc__)
    parser.add_argument("--seed", type=int, help="of all choices; drawn and printed without")
    parser.add_argument("--count", type=int, default=COUNT, help=f"of programs ({COUNT})")
    parser.add_argument("--only", default="", help="numbers and parts of names of families")
    parser.add_argument("--dump", type=pathlib.Path, help="directory for what became of a number")
    options = options_of(parser)
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    words = [word for word in options.only.split(",") if word]
    numbers = list(chosen(words, options.count))
    if not numbers:
        raise SystemExit(f"no program has any of {options.only} as its number or in its family")
    print(f"seed {seed}, {len(numbers)} programs", flush=True)
    if len(numbers) == 1:
        show(seed, numbers[0])
    if options.dump:
        for number in numbers:
            single = len(numbers) == 1
            dump(seed, number, options.dump if single else options.dump / str(number))
    records = sweep(seed, numbers)
    for line in report(seed, records):
        print(line)
    write(seed, records)
    if any(map(is_bad, records)):
        raise SystemExit(1)


def sweep(seed: int, numbers: list[int]) -> list[Record]:
    """Measure programs, and what seems slow again; print progress now and then."""
    records: dict[int, Record] = {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        for record in measured(seed, numbers, SECONDS, directory):
            records[record.number] = record
            if is_bad(record):
                print(f"{record.status} {record.number} {record.description}: {record.note}")
            if len(records) % PROGRESS_EVERY == 0:
                slow = sum(each.ratio > SLOW for each in records.values())
                minutes = (time.monotonic() - started) / 60
                print(f"{len(records)} programs, {slow} slow, {minutes:.1f} min", flush=True)
        again = [number for number, record in records.items() if record.ratio > SLOW]
        for record in measured(seed, again, SECONDS_AGAIN, directory):
            records[record.number] = records[record.number].merged(record)
    return list(records.values())


if __name__ == "__main__":
    main()
