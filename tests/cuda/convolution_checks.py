"""Plans of convolutions, of every kind, type and order of dimensions."""

import dataclasses
import itertools
from collections.abc import Iterator

from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.target.convolution import Convolution, Direction

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
