"""Operations that contract, reduce, move by index or call, against XLA's CPU backend."""

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import run_on_xla
from tests.corpus.hlo_programs import PROGRAMS, arguments, program
from tests.corpus.hlo_text import parse_hlo
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_xla_s_numbers(name: str) -> None:
    parameters, *lines = PROGRAMS[name]
    proto = parse_hlo(program(parameters, *lines))
    given = arguments(parameters)
    wanted = run_on_xla(proto, given)
    for form in (proto, export_module(import_module(proto))):
        module = import_module(form)
        verify(module)
        value = evaluate_checked(module, given)
        found = value if isinstance(value, tuple) else (value,)
        for ours, theirs in zip(found, wanted, strict=True):
            assert isinstance(ours, np.ndarray)
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if ours.dtype.kind in "iub":
                np.testing.assert_array_equal(ours, theirs)
            else:
                wide = np.complex128 if ours.dtype.kind == "c" else np.float64
                # One rounding of bf16 against one for each step.
                tolerance = 2e-5 if ours.dtype.itemsize > 2 else 5e-2
                np.testing.assert_allclose(
                    ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=tolerance
                )
