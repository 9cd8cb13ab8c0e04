"""Special functions of probability that are no XLA operations."""

from collections.abc import Callable, Sequence

from xla_client import ops
from xla_client.lib import constants
from xla_client.ops.elementwise.double_precision import computed_in_double, in_double_precision
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType

_SINGLE_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_SINGLE_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_DOUBLE_CENTRE = (
    -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17,
    -1.3331716628546209e-16, 2.0972767875968562e-17, 6.6376381343583238e-15,
    -4.0545662729752069e-14, -8.1519341976054722e-14, 2.6335093153082323e-12,
    -1.2975133253453532e-11, -5.4154120542946279e-11, 1.0512122733215323e-09,
    -4.1126339803469837e-09, -2.9070369957882005e-08, 4.2347877827932404e-07,
    -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714,
    -0.000740702534166267, -0.0060336708714301491, 0.24015818242558962, 1.6536545626831027,
)  # fmt: skip
_DOUBLE_MIDDLE = (
    2.2137376921775787e-09, 9.0756561938885391e-08, -2.7517406297064545e-07,
    1.8239629214389228e-08, 1.5027403968909828e-06, -4.013867526981546e-06,
    2.9234449089955446e-06, 1.2475304481671779e-05, -4.7318229009055734e-05,
    6.8284851459573175e-05, 2.4031110387097894e-05, -0.00035503752036284748,
    0.0009532893797373805, -0.0016882755560235047, 0.0024914420961078508,
    -0.0037512085075692412, 0.0053709145535900636, 1.0052589676941592, 3.0838856104922208,
)  # fmt: skip
_DOUBLE_TAIL = (
    -2.7109920616438573e-11, -2.5556418169965252e-10, 1.5076572693500548e-09,
    -3.789465440126737e-09, 7.61570120807834e-09, -1.496002662714924e-08,
    2.9147953450901081e-08, -6.7711997758452339e-08, 2.2900482228026655e-07,
    -9.9298272942317e-07, 4.5260625972231537e-06, -1.9681778105531671e-05,
    7.5995277030017761e-05, -0.00021503011930044477, -0.00013871931833623122,
    1.0103004648645344, 4.8499064014085844,
)  # fmt: skip
"""Coefficients of polynomials, the highest power first: M. Giles, "Approximating the erfinv
function" (GPU Computing Gems 2, 2011)."""

_ERFC = (
    0.74132523776450177, -0.21971566364661238, 0.04605103013854378, -0.00075042780552832082,
    -0.0044732997198060395, 0.0023769391425687274, -0.00077947343176465206,
    0.00018181037295811063, -2.8960782890958253e-05, 2.2260459362850085e-06,
    2.5152511918582395e-07, -9.4063194352520636e-08, 6.6403100132479152e-09,
    1.7465153324225868e-09, -3.7274855894364339e-10, -1.856445964556455e-11,
    1.302704931463588e-11, -2.2471204889517246e-13, -4.2662011901419118e-13,
    2.5080052776023761e-14, 1.4586576152233228e-14, -1.2304931665656872e-15,
    -5.2836960243410163e-16, 6.3351183899186064e-17, 5.3800479179533786e-18,
    -3.8797205305416363e-17, 5.0060311677298921e-17, 2.8129066161932161e-18,
    1.603209891717943e-17, -2.151426909758697e-17, -2.3432809955730826e-18,
    1.4382720506091741e-17, 3.2983084233973402e-17,
)  # fmt: skip
"""Chebyshev coefficients of (1 + x) exp(x^2) erfc(x) for x from 0 on, in (x - 3.75) / (x + 3.75),
fitted by least squares to 16 digits."""


@in_double_precision("Computed in f64, as `in_double` says.")
def erfc(operand: Op) -> Op:
    """One minus `ops.erf`, accurate where that is close to one."""
    size = ops.min(ops.abs(operand), 30.0)
    series = chebyshev((size - 3.75) / (size + 3.75), _ERFC) / (size + 1.0)
    # The square of a number of few digits is exact, so the exponential keeps its own.
    short = ops.reduce_precision(size, 11, 20)
    tail = series * ops.exp(-short * short) * ops.exp((short - size) * (short + size))
    value = ops.select(ops.lt(operand, 0.0), 2.0 - tail, tail)
    return ops.select(ops.ne(operand, operand), operand, value)


@checked
def erf_inv(operand: Op) -> Op:
    """The inverse of `ops.erf`: ±inf at ±1 and NaN beyond.

    f64 is computed in f64, every other floating type in f32.

    Args:
        operand: An array of a floating type.

    Returns:
        The results, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type is not floating.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> print(lib.special.erf_inv(x).shape)
        f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    element_type = operand.shape.element_type
    if not element_type.is_floating:
        raise InvalidArgumentError(
            f"erf_inv needs a floating type, got {operand.shape}", op="erf_inv"
        )
    if element_type not in (ElementType.F32, ElementType.F64):
        wide = erf_inv(ops.convert_element_type(operand, ElementType.F32))
        return ops.convert_element_type(wide, element_type)
    # One minus the square, as a logarithm, is exact near zero and resolves both ends.
    w = -ops.log1p(-operand * operand)
    factor = _single(w) if element_type is ElementType.F32 else _double(w)
    infinite = constants.full_like(operand, float("inf"))
    at_the_ends = ops.eq(ops.abs(operand), 1.0)
    return operand * ops.select(at_the_ends, infinite, factor)


@checked
def logit(operand: Op) -> Op:
    """The logarithm of x / (1 - x): the inverse of `ops.logistic`.

    Args:
        operand: An array of a floating type.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is neither floating nor complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.special.logit(x)
        %subtract.5: f32[3]
    """
    return ops.log(operand) - ops.log1p(-operand)


@checked
def polynomial(operand: Op, coefficients: Sequence[float]) -> Op:
    """The polynomial with these coefficients, by Horner's rule.

    Args:
        operand: An array of numbers.
        coefficients: The coefficients, from the highest power down; none for zero.

    Returns:
        The values, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type does not have a coefficient.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> print(lib.special.polynomial(x, [1.0, -2.0, 0.5]).shape)
        f32[3]
    """
    result = constants.zeros_like(operand)
    for coefficient in coefficients:
        result = result * operand + coefficient
    return result


@checked
def chebyshev(operand: Op, coefficients: Sequence[float]) -> Op:
    """The sum of Chebyshev polynomials T0, T1 ... with these coefficients, by Clenshaw's algorithm.

    Unlike XLA's EvaluateChebyshevPolynomial it takes the coefficients from the lowest order up and
    does not halve the first one.

    Args:
        operand: An array of numbers in [-1, 1].
        coefficients: The coefficients, from T0 up; none for zero.

    Returns:
        The values, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type does not have a coefficient.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> print(lib.special.chebyshev(x, [1.0, -2.0, 0.5]).shape)
        f32[3]
    """
    if not coefficients:
        return constants.zeros_like(operand)
    first, *higher = coefficients
    ahead = value = constants.zeros_like(operand)
    for coefficient in reversed(higher):
        ahead, value = value, operand * 2.0 * value - ahead + coefficient
    return operand * value - ahead + first


@checked
def in_double(function: str, compute: Callable[..., Op], *operands: Op) -> Op:
    """The result of a function computed in f64, in the type of its operands.

    Formulas whose terms cancel would leave a narrower type few digits.

    Args:
        function: The name of the caller, for the error.
        compute: A function of as many Ops of f64.
        operands: Arrays of one floating type.

    Returns:
        The result, in the operands' type.

    Raises:
        InvalidArgumentError: The operands are not of one floating type.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.special.in_double("example", ops.sqrt, x)
        %convert.4: f32[3]
    """
    return computed_in_double(function, compute, *operands)


def _single(w: Op) -> Op:
    centre = polynomial(w - 2.5, _SINGLE_CENTRE)
    return ops.select(ops.lt(w, 5.0), centre, polynomial(ops.sqrt(w) - 3.0, _SINGLE_TAIL))


def _double(w: Op) -> Op:
    root = ops.sqrt(w)
    centre = polynomial(w - 3.125, _DOUBLE_CENTRE)
    middle = polynomial(root - 3.25, _DOUBLE_MIDDLE)
    tail = polynomial(root - 5.0, _DOUBLE_TAIL)
    return ops.select(ops.lt(w, 6.25), centre, ops.select(ops.lt(w, 16.0), middle, tail))
