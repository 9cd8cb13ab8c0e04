"""Processors that tests compile for, whichever the host is: tile sizes and instructions follow.

`python -m tests.processors avx2 COMMAND` runs a command as on one of them, such as
`python -m pytest -n 0 tests/unit/codegen`. The host must have what that processor has.
"""

import argparse
import dataclasses
import os
import platform
from collections.abc import Mapping
from typing import Any

import pytest
from numpy._core import _multiarray_umath

from tests.command_line import command_line
from xla_server.target.machine import Machine
from xla_server.target.target import Target

HOST = Machine.host()
TARGET = Target.of(HOST)
MACHINES: Mapping[str, Machine] = {
    "sse2": Machine.sse2(cores=2),
    "avx2": Machine.avx2(cores=2),
    "avx512": Machine.avx512(cores=2),
    "avx512vnni": Machine.avx512(has_vnni=True, cores=2),
}
WIDTHS = ("avx2", "avx512")
"""One processor of each size of tiles."""

assembles = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="LLVM assembles x86 on x86"
)
"""For tests that compile down to instructions of x86, which they need not run."""


def tuned(target: Target, group: str, **numbers: Any) -> Target:
    """Return a target with other numbers of a group of its tuning."""
    tuning = target.tuning
    changed = {group: dataclasses.replace(getattr(tuning, group), **numbers)}
    return dataclasses.replace(target, tuning=dataclasses.replace(tuning, **changed))


def runs(machine: Machine) -> bool:
    """Return whether this host runs what is compiled for a machine."""
    return HOST.has(*(word[1:] for word in machine.features.split(",") if word[0] == "+"))


def environment(name: str, machine: Machine | None = None) -> dict[str, str]:
    """Variables by which a process computes as on a processor: kernels, and libraries beside them.

    Kernels are those of `machine`, by default the processor of that name. The libraries are jaxlib,
    OpenBLAS and numpy, which tests compare results with. They know AVX2 and AVX-512, and what a
    processor without either has they leave as it is.
    """
    machine = machine or MACHINES[name]
    found = {"NUMBA_CPU_NAME": machine.name, "NUMBA_CPU_FEATURES": machine.features}
    if name == "avx2":
        wide = [
            feature
            for feature in _multiarray_umath.__cpu_dispatch__
            if feature.startswith("AVX512") or feature == "X86_V4"
        ]
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2"
        found |= {
            "XLA_FLAGS": flags.strip(),
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": " ".join(wide),
        }
    return found


if __name__ == "__main__":
    parser = command_line("tests.processors", __doc__)
    parser.add_argument("processor", choices=MACHINES)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    os.execvpe(given.command[0], given.command, os.environ | environment(given.processor))
