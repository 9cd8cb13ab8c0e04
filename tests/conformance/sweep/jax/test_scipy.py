"""Every function of jax.scipy gives jaxlib's numbers."""

import importlib
import inspect

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import scipy_programs, scipy_special
from tests.corpus.jax.values import Builder

PROGRAMS = (*scipy_special.PROGRAMS, *scipy_programs.PROGRAMS)


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64)


def test_every_special_function_and_distribution_has_a_call() -> None:
    import jax.scipy.special
    import jax.scipy.stats as stats

    families = {
        f"{name}.": part
        for name, part in vars(stats).items()
        if inspect.ismodule(part) and not name.startswith("_")
    }
    jaxlib.assert_total(
        {"": jax.scipy.special, **families},
        scipy_special.PROGRAMS,
        {},
    )


MODULES = (
    "linalg",
    "signal",
    "fft",
    "ndimage",
    "interpolate",
    "cluster.vq",
    "spatial.transform",
    "integrate",
    "optimize",
    "sparse.linalg",
    "stats",
)


@pytest.mark.parametrize("name", MODULES)
def test_every_other_function_has_a_call_or_a_reason(name: str) -> None:
    module = importlib.import_module(f"jax.scipy.{name}")
    reasons = scipy_programs.NOT_A_PROGRAM.items()
    here = {name: reason for name, reason in reasons if hasattr(module, name)}
    jaxlib.assert_total({"": module}, scipy_programs.PROGRAMS, here)
