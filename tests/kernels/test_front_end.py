"""Counts of what numba's front end compiles in a new process: no kernel, routine or function."""

import subprocess
import sys
from collections.abc import Sequence

import pytest
from numba import njit, types

from tests.conformance.sweep.draws.depth import FULL
from tests.kernels.corpora import CORPORA
from tests.kernels.front_end import RUNTIME, entries
from tests.numba_front_end import ARGUMENTS, compile_object
from tests.processors import HOST
from tests.sources import source_module
from xla_server.codegen.compiler.python_values import UnsupportedError
from xla_server.codegen.namespace import vocabulary

COMPILED_BY_NUMBA: Sequence[str] = ()
"""Functions that numba's front end compiles, each with its reason: there are none."""

CHOSEN = tuple(CORPORA) if FULL else ("golden", "matrices", "hlo", "routines")
LEAST = 1000 if FULL else 170
"""Kernels that there are at least."""


@pytest.mark.timeout(600)
def test_numba_compiles_no_function_of_a_new_process() -> None:
    command = [sys.executable, "-m", "tests.kernels.front_end", *CHOSEN]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    *functions, counts = found.splitlines()
    assert tuple(functions) == COMPILED_BY_NUMBA
    kernels, routines, natives = map(int, counts.split())
    assert kernels > LEAST
    assert (routines, natives) == (len(vocabulary(HOST).shared), len(RUNTIME))


def _doubled(x: int) -> int:
    return x * 2


def test_a_function_that_numba_compiles_is_counted() -> None:
    with entries() as found:
        compile_object(_doubled, [types.int64], "doubled", HOST)
    assert "_doubled" in found
    dispatcher = njit(_doubled)
    with entries() as found:
        dispatcher(3)
    assert found
    with entries() as found:
        dispatcher(4)
    assert found == []


def test_what_the_compiler_does_not_know_is_refused_and_not_left_to_numba() -> None:
    source = "def kernel(buffers, start, stop):\n    x = start / stop\n"
    with entries() as found, pytest.raises(UnsupportedError):
        source_module(source)
    assert found == []
    names: dict[str, object] = {}
    exec(source, names)
    # numba would take it.
    assert compile_object(names["kernel"], ARGUMENTS, "kernel", HOST)  # type: ignore[arg-type]
