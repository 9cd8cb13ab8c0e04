"""Every public function of JAX's packages, and flax's layers, give jaxlib's numbers."""

import importlib
import inspect
from types import ModuleType

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax.calls import (
    flax_programs,
    lax_arrays,
    lax_elementwise,
    network_programs,
    numpy_arrays,
    numpy_elementwise,
    numpy_families,
    random_programs,
    scipy_programs,
    scipy_special,
    transformations,
)
from tests.corpus.jax.calls.values import Builder

LAX = (*lax_elementwise.PROGRAMS, *lax_arrays.PROGRAMS)
NUMPY = (*numpy_elementwise.PROGRAMS, *numpy_arrays.PROGRAMS, *numpy_families.PROGRAMS)
PACKAGES: dict[str, tuple[Builder, ...]] = {
    "flax": flax_programs.PROGRAMS,
    "lax": LAX,
    "nn": network_programs.PROGRAMS,
    "numpy": NUMPY,
    "random": random_programs.PROGRAMS,
    "scipy": (*scipy_special.PROGRAMS, *scipy_programs.PROGRAMS),
    "transformations": transformations.PROGRAMS,
}
IN_F32 = (*flax_programs.PROGRAMS, network_programs.attention)
"""Programs that compute in f32 whatever the type of their arguments."""

FLAX_WRITTEN_FOR = "0.12.8"


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=f"{package}-{build.__name__}")
        for package, programs in PACKAGES.items()
        for build in programs
    ],
)
def test_gives_jaxlib_s_numbers(build: Builder, x64: bool) -> None:
    tolerance = jaxlib.IN_F32 if build in IN_F32 else jaxlib.TOLERANCE
    jaxlib.check(build, x64=x64, tolerance=tolerance)


def modules(*names: str) -> dict[str, ModuleType]:
    """Modules of JAX by the prefix of their names in the corpus; the first one has none."""
    first, *others = names
    named = {f"{name.rpartition('.')[2]}.": importlib.import_module(name) for name in others}
    return {"": importlib.import_module(first), **named}


@pytest.mark.parametrize(
    ("names", "programs", "reasons"),
    [
        (("jax.lax", "jax.lax.linalg"), LAX, lax_arrays.NOT_A_PROGRAM),
        (
            ("jax.nn", "jax.nn.initializers", "jax.image"),
            PACKAGES["nn"],
            network_programs.NOT_A_PROGRAM,
        ),
        (("jax.numpy", "jax.numpy.linalg", "jax.numpy.fft"), NUMPY, numpy_families.NOT_A_PROGRAM),
        (("jax.random",), random_programs.PROGRAMS[:1], random_programs.NOT_A_PROGRAM),
    ],
    ids=["lax", "nn", "numpy", "random"],
)
def test_every_function_has_a_call_or_a_reason(
    names: tuple[str, ...], programs: tuple[Builder, ...], reasons: dict[str, str]
) -> None:
    jaxlib.assert_total(modules(*names), programs, reasons)


def test_every_layer_of_linen_has_a_call_or_a_reason() -> None:
    import flax
    import flax.linen

    if flax.__version__ == FLAX_WRITTEN_FOR:
        layers = {"": flax.linen}
        jaxlib.assert_total(layers, flax_programs.PROGRAMS, flax_programs.NOT_A_PROGRAM)


def test_every_special_function_and_distribution_has_a_call() -> None:
    import jax.scipy.special
    import jax.scipy.stats as stats

    families = {
        f"{name}.": part
        for name, part in vars(stats).items()
        if inspect.ismodule(part) and not name.startswith("_")
    }
    jaxlib.assert_total({"": jax.scipy.special, **families}, scipy_special.PROGRAMS, {})


OF_SCIPY = (
    *("linalg", "signal", "fft", "ndimage", "interpolate", "cluster.vq", "spatial.transform"),
    *("integrate", "optimize", "sparse.linalg", "stats"),
)


@pytest.mark.parametrize("name", OF_SCIPY)
def test_every_other_function_of_scipy_has_a_call_or_a_reason(name: str) -> None:
    module = importlib.import_module(f"jax.scipy.{name}")
    reasons = scipy_programs.NOT_A_PROGRAM.items()
    here = {name: reason for name, reason in reasons if hasattr(module, name)}
    jaxlib.assert_total({"": module}, scipy_programs.PROGRAMS, here)
