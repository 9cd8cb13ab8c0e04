"""Modified Bessel functions, scaled so that they stay in range.

The coefficients are least-squares fits of Chebyshev series to 16 digits, in x / 4 - 1 up to 8 and
in 16 / x - 1 beyond, where the functions go as one over the square root of x.
"""

from collections.abc import Sequence

from xla_client import ops
from xla_client.lib import constants
from xla_client.lib.special import chebyshev, in_double
from xla_client.programs.builder import Op
from xla_client.programs.checked import checked

_I0_SMALL = (
    0.33839763720473875, -0.30468267234319912, 0.17162090152220924, -0.094901097048047764,
    0.04930528423967042, -0.02373741480589921, 0.010546460394594887, -0.0043243099950508561,
    0.001639475616941967, -0.00057637557453935854, 0.00018850288509641121,
    -5.7541950101072683e-05, 1.6448448070803838e-05, -4.4167383581988088e-06,
    1.1173875388626357e-06, -2.6707938518305073e-07, 6.0469950163443387e-08,
    -1.3000250230784904e-08, 2.6598238150218572e-09, -5.1897958264576003e-10,
    9.6758061689111601e-11, -1.7268231104360071e-11, 2.9550426139957382e-12,
    -4.8564740169207576e-13, 7.676891353240322e-14, -1.1682245564741747e-14,
    1.6914056072997496e-15, -2.1575964136364342e-16, 1.1763008670151006e-17,
    1.6556354079414453e-18, 7.625238932111136e-19, -4.8107658555457719e-18,
    1.4764308067359693e-17,
)  # fmt: skip
_I0_LARGE = (
    0.40224520550705456, 0.0033691164782556991, 6.8897583469173748e-05, 2.8913705208334319e-06,
    2.0489185895139079e-07, 2.2666689906494131e-08, 3.3962320346578359e-09,
    4.9406023982435355e-10, 1.1889141277659954e-11, -3.1499172155728558e-11,
    -1.3215808862313834e-11, -1.7941752261180657e-12, 7.1800527082425261e-13,
    3.8527447004648791e-13, 1.5400426498493242e-14, -4.1496867374842433e-14,
    -9.5516101615807903e-15, 3.8092056828969507e-15, 1.7720578055137784e-15,
    -3.3511955422237759e-16, -2.7867513518314186e-16,
)  # fmt: skip
_I1_SMALL = (
    0.12629359322181674, -0.17641651835783392, 0.10264365868984694, -0.052945981208094982,
    0.024726449030626641, -0.010564084894626355, 0.0041564229443130157, -0.0015135724506312434,
    0.00051228595616851233, -0.00016176081582585085, 4.7815651075468138e-05,
    -1.3273163656000677e-05, 3.4702513080792696e-06, -8.5687202635029245e-07,
    2.0032947526049897e-07, -4.4450591245208247e-08, 9.381537425082921e-09,
    -1.8872498055790495e-09, 3.6255900374918995e-10, -6.663484852145789e-11,
    1.1736169285673448e-11, -1.9839023098376394e-12, 3.2230917920066705e-13,
    -5.0440075571059461e-14, 7.5903659292888903e-15, -1.105638155258071e-15,
    1.6038043126641445e-16, 9.7811348623346148e-18, -1.9379472902855095e-17,
    4.0150529414914667e-17, -1.5659211769271686e-17, 4.3784150222454686e-18,
    -3.9024860374717324e-18,
)  # fmt: skip
_I1_LARGE = (
    0.38928811750913977, -0.0097610974913614913, -0.0001105889387626387, -3.8825648088803147e-06,
    -2.5122362378256067e-07, -2.6314688477164828e-08, -3.8353803916669781e-09,
    -5.5897435097992626e-10, -1.8974956615685479e-11, 3.2526047037669846e-11,
    1.4125813185060209e-11, 2.0356319641076592e-12, -7.198573260968219e-13,
    -4.0836058902742204e-13, -2.1015720499358907e-14, 4.2728006768029194e-14,
    1.0430672964406899e-14, -3.8097144959547955e-15, -1.8824085416371676e-15,
    3.3046442003663474e-16, 2.9521049843223975e-16,
)  # fmt: skip


@checked
def bessel_i0e(operand: Op) -> Op:
    """The modified Bessel function of the first kind and order 0, times exp(-|x|).

    Args:
        operand: An array of a floating type.

    Returns:
        The results, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type is not floating.

    Example:
        >>> x = Builder("example").parameter(0, "f64[3]")
        >>> print(lib.bessel.bessel_i0e(x).shape)
        f64[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return in_double("bessel_i0e", lambda x: _scaled(x, _I0_SMALL, _I0_LARGE), operand)


@checked
def bessel_i1e(operand: Op) -> Op:
    """The modified Bessel function of the first kind and order 1, times exp(-|x|).

    Args:
        operand: An array of a floating type.

    Returns:
        The results, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type is not floating.

    Example:
        >>> x = Builder("example").parameter(0, "f64[3]")
        >>> print(lib.bessel.bessel_i1e(x).shape)
        f64[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """

    def compute(x: Op) -> Op:
        size = ops.abs(x)
        value = _scaled(x, _I1_SMALL, _I1_LARGE)
        return ops.select(ops.le(size, 8.0), value * x, value * ops.sign(x))

    return in_double("bessel_i1e", compute, operand)


def _scaled(x: Op, small: Sequence[float], large: Sequence[float]) -> Op:
    size = ops.abs(x)
    is_small = ops.le(size, 8.0)
    # Each series sees only numbers of its own range: elsewhere it would be infinite.
    near = chebyshev(ops.select(is_small, size, 8.0) / 4.0 - 1.0, small)
    far_size = ops.select(is_small, constants.full_like(size, 8.0), size)
    far = chebyshev(16.0 / far_size - 1.0, large) / ops.sqrt(far_size)
    return ops.select(is_small, near, far)
