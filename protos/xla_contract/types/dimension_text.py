"""Dimension numbers of convolutions in text: `b01f_01io->b01f` or `NHWC,HWIO->NHWC`.

The first is HLO's: `b` batch, `f` features, `i` and `o` input and output features of the kernel,
digits for the spatial dimensions. The second is that of JAX and TensorFlow: `N` batch, `C`
features, `I` and `O` in the kernel, any other letters for the spatial dimensions, in the order in
which the kernel names them.
"""

from collections.abc import Sequence
from typing import NoReturn

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers

_FORMS = "'b01f_01io->b01f' or 'NHWC,HWIO->NHWC'"


def parse_convolution_numbers(text: str) -> ConvolutionDimensionNumbers:
    """Return the dimension numbers written in HLO's or in JAX's form.

    Raises:
        InvalidArgumentError: A term is missing or names another dimension than the others.
    """
    operands, arrow, output = text.replace(" ", "").partition("->")
    if not arrow:
        _fail(text, "there is no '->' in it")
    if "_" in operands:
        terms = [*operands.split("_"), output]
        special = [("b", "f"), ("i", "o"), ("b", "f")]
    else:
        terms = [*operands.upper().split(","), output.upper()]
        special = [("N", "C"), ("I", "O"), ("N", "C")]
    if len(terms) != 3:
        _fail(text, f"it has {len(terms) - 1} operands")
    spatial = [name for name in terms[1] if name not in special[1]]
    if special[1] == ("i", "o"):
        spatial.sort()
    orders = []
    for term, (first, second) in zip(terms, special, strict=True):
        names = [first, second, *spatial]
        if sorted(term) != sorted(names) or len(set(names)) != len(names):
            _fail(text, f"{term!r} must have {_listed(names)}, each once")
        orders.append([term.index(name) for name in names])
    (batch, feature, *at), (inner, outer, *kernel), (out_batch, out_feature, *out) = orders
    return ConvolutionDimensionNumbers(
        batch,
        feature,
        tuple(at),
        inner,
        outer,
        tuple(kernel),
        out_batch,
        out_feature,
        tuple(out),
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _fail(text: str, reason: str) -> NoReturn:
    raise InvalidArgumentError(
        f"dimension numbers must be text as {_FORMS}, got {text!r:.80}: {reason}"
    )
