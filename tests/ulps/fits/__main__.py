"""`python -m tests.ulps.fits [NAME...]`: write the coefficients of kernel functions.

Each polynomial (FITS of `tests.elementwise_operations`) has one statement, `NAME: Coefficients`,
in the module of its formula. It is found by the name, and may be empty before. Without names all
of them are written.
"""

from decimal import localcontext
from pathlib import Path

import xla_server
from tests.command_line import command_line
from tests.elementwise_operations import FITS
from tests.ulps.fits.fitting import statement_of
from tests.ulps.fits.minimax import DIGITS

FOLDER = Path(xla_server.__file__).parent / "codegen/functions"


def main(names: list[str]) -> None:
    """Write the coefficients of the polynomials of these names."""
    for fit in FITS:
        for path in FOLDER.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if fit.name in names and (found := statement_of(fit.name, text)):
                with localcontext(prec=DIGITS + 10):
                    written = text.replace(found, fit.text())
                path.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    parser = command_line("tests.ulps.fits", __doc__)
    every = [fit.name for fit in FITS]
    parser.add_argument("names", metavar="NAME", nargs="*", default=every)
    main(parser.parse_args().names)
