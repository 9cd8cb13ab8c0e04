"""BLAS and LAPACK: their arguments as scipy declares them, and the memory that they ask for."""

import numpy as np
import pytest

from xla_server.codegen.instructions.blas import routine
from xla_server.codegen.instructions.lapack import LETTER, ROUTINES, workspace

BY_VALUE = (
    *("sgemm", "zgemm", "dsyrk", "cherk", "strsm", "ztrsm", "dpotrf", "cgetrf", "slaswp"),
    *("zlaswp", "dgeqrf", "sormqr", "cunmqr", "dorgqr", "zungqr"),
)


@pytest.mark.parametrize("name", BY_VALUE)
def test_every_argument_goes_by_address_or_by_value(name: str) -> None:
    assert set(routine(name).form) == {"a"}
    assert len(routine(name, by_value=True).form) == len(routine(name).form)


@pytest.mark.parametrize("name", ROUTINES)
def test_routines_have_the_parameters_that_are_declared(name: str) -> None:
    assert len(ROUTINES[name].names) == len(routine(name).form)


@pytest.mark.parametrize("letter", LETTER.values())
def test_a_factorization_asks_for_memory_in_its_own_type(letter: str) -> None:
    computed = {each: kind for kind, each in LETTER.items()}[letter]
    dtype = np.dtype(f"{computed[0]}{int(computed[1:]) // 8}")
    sizes = workspace(f"{letter}geqrf", {"m": 40, "n": 30, "lda": 40, "work": dtype})
    assert sizes["work"] >= 30
    assert workspace(f"{letter}getrf", {"m": 40, "n": 30, "lda": 40}) == {}
