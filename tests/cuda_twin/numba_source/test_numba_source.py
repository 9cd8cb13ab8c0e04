"""The readable form of kernels for a GPU, as dumps have it: numba compiles it, with the same bits.

numba's simulator of CUDA executes the source, in a process of its own. Machine code is that of the
host's twin.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.numba_source.compared import VARIABLE
from tests.cuda_twin.numba_source.front_end import object_of
from tests.cuda_twin.numba_source.programs import CLASSES, LEFT_OUT, emitted, program

SLICE = (
    *("elements", "transposes", "rows", "blocks", "columns", "boxes"),
    *("merge_sort", "scan", "scatter", "while_loop"),
)
"""The classes that `make test` takes; `make test-cuda-simulated` takes all."""

CHOSEN = list(CLASSES) if FULL else list(SLICE)

COMPILED = list(CLASSES) if FULL else ["blocks", "while_loop"]
"""Classes that numba's front end compiles: together they have all that threads do together."""

WITH_ADDRESSES = {"cholesky", "triangular_solve"}
"""Programs of the corpora with a kernel that stores addresses, which no two runs share."""


def test_each_class_of_kernels_has_a_program() -> None:
    assert {*emitted()} <= {*CLASSES, *LEFT_OUT}
    assert {*LEFT_OUT} <= {*emitted()} - {*CLASSES}


@pytest.mark.timeout(900)
def test_the_source_gives_the_bits_of_machine_code() -> None:
    corpora = ["golden", "hlo"] if FULL else []
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cuda_twin.numba_source.compared", *CHOSEN, *corpora],
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    kernels = list(map(json.loads, ended.stdout.splitlines()))
    assert [kernel for kernel in kernels if kernel["differs"]] == []
    left = {kernel["program"] for kernel in kernels if kernel["left_out"]}
    assert left == (WITH_ADDRESSES if FULL else set())
    stored = [kernel for kernel in kernels if kernel["stored_bytes"]]
    assert {*CHOSEN} <= {kernel["program"] for kernel in stored}
    assert {*CHOSEN} & {*emitted()} <= {name for kernel in stored for name in kernel["classes"]}


@pytest.mark.parametrize("name", COMPILED)
def test_numba_compiles_the_source(name: str) -> None:
    for grid in grids(compiled(program(name))):
        assert object_of(grid).startswith(b"\x7fELF")
