"""`python -m tests.fuzz.mutants --seconds 600`: mutated modules on servers of both platforms."""

import contextlib
import itertools
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.command_line import command_line
from tests.e2e.process import start_server
from tests.fuzz.mutants.fuzzing import Counts, fuzz
from tests.fuzz.mutants.servers import FLAGS, Mutated

SEEDS_PER_SERVER = 2000
"""Mutants after which servers are started anew: a leak shows long before, as it has a bound."""


@contextlib.contextmanager
def platforms() -> Iterator[list[Mutated]]:
    """Two servers, one of each platform."""
    with contextlib.ExitStack() as stack:
        found = []
        for platform in ("cpu", "interpreter"):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            environment = {"XDG_STATE_HOME": str(directory / "state")}
            server = stack.enter_context(
                start_server(directory, "--platform", platform, *FLAGS, environment=environment)
            )
            found.append(Mutated(platform, server))
            stack.callback(found[-1].close)
        yield found


def main() -> int:
    parser = command_line("tests.fuzz.mutants", __doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the first one; by default any")
    chosen = parser.parse_args()
    first = secrets.randbelow(1 << 40) if chosen.seed is None else chosen.seed
    print(f"seeds from {first}", flush=True)
    until = time.monotonic() + chosen.seconds
    seeds = itertools.takewhile(lambda _: time.monotonic() < until, itertools.count(first))
    counts, found = Counts(), 0
    while time.monotonic() < until:
        with platforms() as both:
            for text in fuzz(itertools.islice(seeds, SEEDS_PER_SERVER), both, counts):
                found += 1
                print(f"--- {found}\n{text}\n", flush=True)
            resident = [f"{one.platform} {one.resident_bytes >> 20} MiB" for one in both]
    print(f"{counts}: {found} faults; {', '.join(resident)}")
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("XLA_SERVER_COMPILATION_CACHE_DIR", "")
    sys.exit(main())
