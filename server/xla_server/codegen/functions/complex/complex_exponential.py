"""Exponential and trigonometric functions of complex numbers; logistic of floats too."""

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex.complex_values import (
    Complex,
    choose,
    complex_family,
    is_finite,
    is_infinite,
    one,
    sines,
    undefined,
)
from xla_server.codegen.functions.complex.quotients_and_roots import divided
from xla_server.codegen.functions.real import exponential
from xla_server.codegen.functions.values import Value, family, select, with_sign


def exp(z: Complex) -> Complex:
    """Return e^z; NaN if the imaginary part is not finite."""
    large = z.real > 709
    half = exponential.precise_exp(select(large, z.real * 0.5, z.real))
    again = select(large, half, half.constant(1))
    sine, cosine = sines(z.imag)
    x = half * cosine * again
    y = half * sine * again
    result = Complex(x, select(z.imag.equals(0), z.imag, y))
    return undefined(~is_finite(z.imag), result)


def expm1(z: Complex) -> Complex:
    """Return exp(z) - 1; real for real numbers, inf and NaN included."""
    sine, cosine = sines(z.imag)
    x = exponential.expm1(z.real) * cosine - _versine(sine, cosine)
    y = exponential.exp(z.real) * sine
    return Complex(x, select(z.imag.equals(0), z.imag, y))


def _versine(sine: Value, cosine: Value) -> Value:
    """Return 1 - cos, of small angles without cancellation."""
    return select(cosine > 0, sine * sine / (cosine + 1), 1 - cosine)


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x); as in XLA, zero if e^-x is infinite."""
    return 1 / (1 + exponential.exp(-x))


def complex_logistic(z: Complex) -> Complex:
    """Return 1 / (1 + exp(-z)), in a form that avoids inf / inf for large arguments."""
    negative = z.real < -1
    exponent = choose(negative, z, -z)
    falling = exp(exponent)
    # The sum 1 + e^a cos b near a pole, with cos b = -1 and a = 0, as terms without cancellation.
    growth = exponential.expm1(exponent.real)
    sine, cosine = sines(exponent.imag)
    near = (cosine < 0) & (abs(exponent.real) <= 1)
    across = (growth + 1) * sine
    below = falling.plus_one()
    below = Complex(
        select(near, real.fma(cosine, growth, _versine(sine, -cosine)), below.real),
        select(near, across, below.imag),
    )
    above = choose(negative, falling, one(z))
    is_plain = exponent.imag.equals(0) | below.is_nan()
    return choose(is_plain, divided(above, below), divided(above, below, real.fma))


def sin(z: Complex) -> Complex:
    """Return the sine, computed by parts, so that 0 times infinity is NaN."""
    sine, cosine = sines(z.real)
    return Complex(sine * exponential.cosh(z.imag), cosine * exponential.sinh(z.imag))


def cos(z: Complex) -> Complex:
    """Return the cosine, computed by parts, so that 0 times infinity is NaN."""
    sine, cosine = sines(z.real)
    return Complex(cosine * exponential.cosh(z.imag), -(sine * exponential.sinh(z.imag)))


def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine; infinite for an infinite real part and any imaginary one."""
    x, (sine, cosine) = exponential.sinh(z.real), sines(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(z.real, x, cosine))
    along = select(x.equals(0), x, along)
    across = _grown(abs(z.real), exponential.cosh(z.real), sine)
    return Complex(along, select(z.imag.equals(0), z.imag, across))


def _grown(x: Value, growth: Value, factor: Value) -> Value:
    """Return sinh or cosh of x, passed as `growth`, times a factor; without overflow in between."""
    half = exponential.exp(abs(x) * 0.5)
    large = is_infinite(growth) & ~is_infinite(x)
    return select(large, with_sign(half, x) * factor * 0.5 * half, growth * factor)


def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine; infinite for an infinite real part and any imaginary one."""
    x, (sine, cosine) = exponential.cosh(z.real), sines(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(abs(z.real), x, cosine))
    across = _grown(z.real, exponential.sinh(z.real), sine)
    real_or_turned = z.imag.equals(0) | z.real.equals(0)
    return Complex(along, select(real_or_turned, across.constant(0), across))


def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent; NaN for a non-finite imaginary part and a finite real one."""
    # Formulas of the double angle would add too many roundings.
    double_sine, double_cosine = sines(z.imag * 2)
    single_sine, single_cosine = sines(z.imag)
    tangent = single_sine / single_cosine
    square = tangent * tangent + 1
    far = abs(z.real) > 20
    sine = exponential.sinh(select(far, z.real.constant(0), z.real))
    cosine = real.sqrt(real.fma(sine, sine, 1))
    below = real.fma(square, sine * sine, 1)
    near = Complex(square * cosine * sine / below, tangent / below)
    # The quotients of sinh 2x and sin 2y by cosh 2x + cos 2y have fewer roundings. They are used
    # unless that sum cancels.
    doubled = select(far, z.real.constant(0), z.real) * 2
    total = exponential.cosh(doubled) + double_cosine
    plain = Complex(exponential.sinh(doubled) / total, double_sine / total)
    # Twice the largest imaginary parts is infinite.
    is_plain = (double_cosine > -0.25) | ((abs(z.real) > 1) & is_finite(double_cosine))
    near = choose(is_plain, plain, near)
    decay = exponential.exp(abs(z.real) * -2)
    end = Complex(with_sign(decay.constant(1), z.real), tangent / square * decay * 4)
    result = choose(far, end, near)
    x = select(z.real.differs(z.real), z.real, result.real)
    result = Complex(x, select(z.imag.equals(0), z.imag, result.imag))
    limit = Complex(with_sign(decay.constant(1), z.real), z.real.constant(0))
    return choose(is_infinite(z.real), limit, undefined(~is_finite(z.imag), result))


def tan(z: Complex) -> Complex:
    """Return the tangent; NaN for a non-finite real part and a finite imaginary one."""
    return tanh(z.times_i()).over_i()


FORMULAS = {
    **complex_family(cos, cosh, exp, expm1, complex_logistic, sin, sinh, tan, tanh),
    **family(logistic),
}
"""Every function of this module by its name in kernels."""
