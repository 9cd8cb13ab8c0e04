"""The machine that benchmarks run on, and runs as on one with fewer vector instructions.

`--isa avx2` before a benchmark's other words runs it without AVX-512 on both sides: ours by the
record of the machine, XLA's by --xla_cpu_max_isa, and its products and convolutions by a variable
of their library. The environment says so to all processes.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType

from tests.benchmarks import ynnpack
from tests.processors import environment
from xla_server.target.machine import Machine

_OPTION = "--isa"
_WITHOUT: Mapping[str, str] = MappingProxyType({"avx2": "avx512f"})
"""The feature that a machine of each name lacks, with all that imply it."""


def limited(machine: Machine, isa: str) -> Machine:
    """Return a machine without what is newer than `isa`."""
    return dataclasses.replace(machine, features=f"{machine.features},-{_WITHOUT[isa]}")


def run_as_asked(module: str) -> list[str]:
    """Return a command's words; with `--isa`, begin the module anew under an environment for it.

    Prints the machine, for the log, and limits XLA as it says. Raises SystemExit for a name that is
    not known.
    """
    words = sys.argv[1:]
    if _OPTION in words:
        place = words.index(_OPTION)
        isa, rest = "".join(words[place + 1 : place + 2]), words[:place] + words[place + 2 :]
        if isa not in _WITHOUT:
            raise SystemExit(
                f"{_OPTION} takes one of {', '.join(_WITHOUT)}, got {isa or 'nothing'}"
            )
        variables = environment(isa, limited(Machine.host(), isa))
        os.execvpe(sys.executable, [sys.executable, "-m", module, *rest], os.environ | variables)
    print(description(Machine.host(), os.environ), flush=True)
    limit_products(os.environ)
    return words


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options of the command line, run as its `--isa` says."""
    parser.add_argument(_OPTION, help="the newest vector instructions to use: avx2")
    # Before a process begins, as it may be help that is asked for.
    parser.parse_args()
    return parser.parse_args(run_as_asked(parser.prog.rpartition(" ")[2]))


def limit_products(variables: Mapping[str, str]) -> None:
    """Limit products of XLA's in this process as `variables` limit its other code."""
    if _limits(variables):
        ynnpack.limit()


def description(machine: Machine, variables: Mapping[str, str]) -> str:
    """Return a line about a machine: processor, vectors, cores, and what XLA is limited to."""
    flags = _limits(variables)
    limit = f", XLA and YNNPACK with {' '.join(flags)}" if flags else ""
    return (
        f"machine: {machine.name}, {machine.vector_set} ({machine.vector_bytes} bytes), "
        f"{machine.cores} cores, L2 {machine.l2_bytes >> 10} KiB{limit}"
    )


def _limits(variables: Mapping[str, str]) -> list[str]:
    """Return the flags that limit XLA's instructions."""
    return [word for word in variables.get("XLA_FLAGS", "").split() if "max_isa" in word]
