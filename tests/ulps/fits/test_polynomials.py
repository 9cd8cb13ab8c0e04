"""Coefficients that the server has are those that their fits give."""

from decimal import localcontext

import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.elementwise_operations import FITS
from tests.ulps.fits.__main__ import FOLDER
from tests.ulps.fits.fitting import Fit, statement_of
from tests.ulps.fits.minimax import DIGITS

WRITTEN = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
SLOW = ("ERF_FAR", "ERF_NEAR")
"""Fits that take some 15 s."""


@pytest.mark.parametrize(
    "fit", [fit for fit in FITS if FULL or fit.name not in SLOW], ids=lambda fit: str(fit.name)
)
def test_the_coefficients_are_those_of_the_fit(fit: Fit) -> None:
    with localcontext(prec=DIGITS + 10):
        assert statement_of(fit.name, WRITTEN) == fit.text()


def test_there_are_no_others() -> None:
    assert WRITTEN.count(": Coefficients = ") == len(FITS)
