"""Processors that tests compile for, whichever the host is: tile sizes and instructions follow.

`python -m tests.processors avx2 COMMAND` runs a command as on one of them, such as
`python -m pytest -n 0 tests/unit/codegen`. The host must have what that processor has.
"""

import contextlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from unittest import mock

import pytest
from numba.core import config
from numpy._core import _multiarray_umath

_AVX2 = "+64bit,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt"
_AVX512 = f"{_AVX2},+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"
PROCESSORS: Mapping[str, tuple[str, str]] = {
    "sse2": ("x86-64", "+64bit,+sse,+sse2"),
    "avx2": ("haswell", _AVX2),
    "avx512": ("skylake-avx512", _AVX512),
    "avx512vnni": ("cascadelake", f"{_AVX512},+avx512vnni"),
}
"""LLVM's name and features of a processor, as numba's environment variables take them."""
WIDTHS = ("avx2", "avx512")
"""One processor of each size of tiles."""

assembles = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="LLVM assembles x86 on x86"
)
"""For tests that compile down to instructions of x86, which they need not run."""


@contextlib.contextmanager
def compiled_for(name: str) -> Iterator[None]:
    """Have a processor compiled for, in place of the host.

    Functions that kernels call by name are made for the host when they are imported: what is
    compiled in the block is to be looked at, or called by itself, and not run as a program.
    """
    cpu, features = PROCESSORS[name]
    with mock.patch.multiple(config, CPU_NAME=cpu, CPU_FEATURES=features):
        yield


def environment(name: str) -> dict[str, str]:
    """Variables by which a process computes as on a processor: kernels, and libraries beside them.

    Those are jaxlib, OpenBLAS and numpy, which tests compare results with. They know AVX2 and
    AVX-512, and what a processor without either has they leave as it is.
    """
    cpu, features = PROCESSORS[name]
    found = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
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
    _, processor, *command = sys.argv
    os.execvpe(command[0], command, os.environ | environment(processor))
