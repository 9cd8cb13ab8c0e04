"""Convolutions by cuDNN: plans beside the twin's, and programs beside those without it."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cuda.checks.library_checks import ROUNDED, plan_check
from tests.cuda.checks.outcomes import Outcome, Status, outcomes
from tests.executing import execute
from tests.platforms import compiled_platform, driver_of
from tests.unit.codegen.compiled import imported
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.cuda.backend import Cuda
from xla_server.backends.cuda.worker.libraries.cudnn_backend import is_installed
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.target.gpu.convolution import Convolution, Direction

SQUARE = Convolution(
    *(Direction.FORWARD, E.F32, 4, 16, 24, 1, (12, 9), (3, 3), (10, 7)),
    *((1, 1), (1, 1), (0, 0), (0, 0)),
    is_channels_last=True,
)

FORMS = (
    SQUARE,
    dataclasses.replace(SQUARE, groups=4, low=(1, 1), high=(1, 1), positions=(12, 9)),
    dataclasses.replace(SQUARE, strides=(2, 1), low=(1, 0), high=(0, 2), positions=(6, 9)),
    dataclasses.replace(SQUARE, dilations=(2, 3), low=(2, 3), high=(2, 3), positions=(12, 9)),
    dataclasses.replace(SQUARE, inputs=3, outputs=5, window=(2, 1), positions=(11, 9)),
    dataclasses.replace(SQUARE, image=(1, 40), window=(1, 5), positions=(1, 36)),
    Convolution(
        *(Direction.FORWARD, E.F32, 2, 8, 16, 1, (5, 6, 7), (3, 2, 3), (5, 5, 3)),
        *((1, 1, 2), (1, 1, 1), (1, 0, 1), (1, 0, 0)),
        is_channels_last=True,
    ),
)

TYPES = ((E.F32, False), (E.F32, True), (E.F64, False), (E.F16, False), (E.BF16, False))
"""Element types, and whether operands are rounded to TF32."""


def convolution_plans() -> Iterator[ConvolutionPlan]:
    """Yield every form as itself and as both of its gradients."""
    for form, direction, (element, rounds), is_last in itertools.product(
        FORMS, Direction, TYPES, (True, False)
    ):
        yield ConvolutionPlan(
            dataclasses.replace(
                form,
                direction=direction,
                element=element,
                rounds_operands=rounds,
                is_channels_last=is_last,
            )
        )


ORDERS = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"))

LAYERS = {
    "stem": ((32, 3, 64, 224), 7, 2),
    "3x3 of 64": ((32, 64, 64, 56), 3, 1),
    "3x3 of 512": ((32, 512, 512, 7), 3, 1),
    "3x3 by 2": ((32, 128, 256, 28), 3, 2),
}
"""Batch, input and output features, size; window; strides: of a residual network."""

_TURNS = 5


def convolution_outcomes(platform: str) -> Iterator[Outcome]:
    """Yield what becomes of plans, and of layers with and without cuDNN, with their times."""
    if platform == "cuda" and not is_installed():
        yield Outcome("cuDNN", text="not installed: pip install nvidia-cudnn-cu13")
        return
    driver, _ = driver_of(platform)
    driver.make_current()
    checks = (
        (plan.text, functools.partial(plan_check, driver, plan)) for plan in convolution_plans()
    )
    yield from outcomes(checks)
    without, by_library = compiled_platform(platform), _by_library(platform)
    try:
        for (name, layer), order, is_gradient in itertools.product(
            LAYERS.items(), ORDERS, (False, True)
        ):
            what = f"{name} {order[0]}{', gradients' if is_gradient else ''}"
            try:
                yield _compared(what, without, by_library, *_layer(layer, order, is_gradient))
            except Exception as error:
                yield Outcome(what, Status.RAISED, f"{type(error).__name__}: {error}"[:2000])
    finally:
        by_library.close()


def _by_library(platform: str) -> Cuda:
    if platform == "cuda":
        return Cuda(1, library_convolutions=True)
    from tests.cuda_twin.device.platform import twin_platform

    return twin_platform(library_convolutions=True)


def _layer(layer: Any, order: tuple[str, str, str], is_gradient: bool) -> tuple[Any, list[Any]]:
    """Return a program, a layer or both of its gradients, and its arguments."""
    import jax

    from tests.corpus.jax.programs import lower

    (batch, inputs, outputs, size), window, strides = layer
    sizes = {"N": batch, "C": inputs, "I": inputs, "O": outputs}
    drawn = np.random.default_rng(0)
    x, w = (
        drawn.standard_normal([(sizes | {"H": n, "W": n})[letter] for letter in text]).astype("f")
        for text, n in zip(order, (size, window), strict=False)
    )

    def program(x: Any, w: Any) -> Any:
        def convolved(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, (strides, strides), "SAME", dimension_numbers=order
            )

        if not is_gradient:
            return convolved(x, w)
        made, back = jax.vjp(convolved, x, w)
        return back(made)

    return imported(lower(program, x, w)), [x, w]


def _compared(
    name: str, without: CompiledBackend, by_library: CompiledBackend, module: Any, arguments: Any
) -> Outcome:
    """Run a program both ways: the results must agree up to the rounding of operands."""
    (theirs, slow), (ours, fast) = (
        _timed(platform, module, arguments) for platform in (without, by_library)
    )
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        gap = float(np.max(np.abs(one - other)) / np.max(np.abs(other)))
        if not gap <= 2 * ROUNDED:
            return Outcome(name, Status.WRONG, f"result {number}: off by {gap:.1e} of the largest")
    return Outcome(name, text=f"cuDNN {fast / 1e3:.0f} us, without it {slow / 1e3:.0f} us")


def _timed(platform: CompiledBackend, module: Any, arguments: list[Any]) -> tuple[list[Any], int]:
    """Return results, and the least nanoseconds of several runs."""
    executable = platform.compile(module, module.entry_program_shape)
    device = platform.devices[0]
    placed = [platform.to_device(Literal.from_numpy(each), device) for each in arguments]
    nanoseconds = []
    for _ in range(_TURNS):
        run = execute(executable, device, placed)
        nanoseconds.append(run.profile.compute_time_ns)
    output: Any = run.output
    value = output.value
    return list(value) if isinstance(value, tuple) else [value], min(nanoseconds)
