"""Exponential and trigonometric functions of complex numbers; logistic of floats too."""

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex.complex_values import (
    Complex,
    choose,
    complex_family,
    is_finite,
    is_infinite,
    one,
    undefined,
)
from xla_server.codegen.functions.complex.quotients_and_roots import divided
from xla_server.codegen.functions.real import exponential
from xla_server.codegen.functions.real.trigonometric import (
    cos_f64_inline,
    sin_f64_inline,
    tan_f64_inline,
)
from xla_server.codegen.functions.values import Value, family, select, with_sign


def exp(z: Complex) -> Complex:
    """e to the z, NaN where the angle is not finite."""
    large = z.real > 709
    half = exponential.precise_exp(select(large, z.real * 0.5, z.real))
    again = select(large, half, half.constant(1))
    x = half * cos_f64_inline(z.imag) * again
    y = half * sin_f64_inline(z.imag) * again
    result = Complex(x, select(z.imag.equals(0), z.imag, y))
    return undefined(~is_finite(z.imag), result)


def expm1(z: Complex) -> Complex:
    """exp(z) - 1; of real numbers a real one, too large or NaN as it may be."""
    half_sine = sin_f64_inline(z.imag * 0.5)
    x = exponential.expm1(z.real) * cos_f64_inline(z.imag) - half_sine * half_sine * 2
    y = exponential.exp(z.real) * sin_f64_inline(z.imag)
    return Complex(x, select(z.imag.equals(0), z.imag, y))


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x); as in XLA, zero where e^-x is infinite."""
    return 1 / (1 + exponential.exp(-x))


def complex_logistic(z: Complex) -> Complex:
    """1 / (1 + exp(-z)), written so that large arguments do not meet inf / inf."""
    negative = z.real < -1
    exponent = choose(negative, z, -z)
    falling = exp(exponent)
    # 1 + e^a cos b: near a pole, where cos b is -1 and a is 0, of terms each exact in size.
    growth = exponential.expm1(exponent.real)
    cosine, half = cos_f64_inline(exponent.imag), cos_f64_inline(exponent.imag * 0.5)
    near = (cosine < 0) & (abs(exponent.real) <= 1)
    across = (growth + 1) * sin_f64_inline(exponent.imag)
    below = falling.plus_one()
    below = Complex(
        select(near, real.fma(half * 2, half, cosine * growth), below.real),
        select(near, across, below.imag),
    )
    above = choose(negative, falling, one(z))
    is_plain = exponent.imag.equals(0) | below.is_nan()
    return choose(is_plain, divided(above, below), divided(above, below, real.fma))


def sin(z: Complex) -> Complex:
    """The sine by its parts, so that 0 times infinity is NaN."""
    return Complex(
        sin_f64_inline(z.real) * exponential.cosh(z.imag),
        cos_f64_inline(z.real) * exponential.sinh(z.imag),
    )


def cos(z: Complex) -> Complex:
    """The cosine by its parts, so that 0 times infinity is NaN."""
    return Complex(
        cos_f64_inline(z.real) * exponential.cosh(z.imag),
        -(sin_f64_inline(z.real) * exponential.sinh(z.imag)),
    )


def sinh(z: Complex) -> Complex:
    """The hyperbolic sine; infinite beside an angle that is not finite."""
    x, cosine, sine = exponential.sinh(z.real), cos_f64_inline(z.imag), sin_f64_inline(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(z.real, x, cosine))
    along = select(x.equals(0), x, along)
    across = _grown(abs(z.real), exponential.cosh(z.real), sine)
    return Complex(along, select(z.imag.equals(0), z.imag, across))


def _grown(x: Value, growth: Value, factor: Value) -> Value:
    """sinh or cosh of x, given as `growth`, times a factor, which may make it finite."""
    half = exponential.exp(abs(x) * 0.5)
    large = is_infinite(growth) & ~is_infinite(x)
    return select(large, with_sign(half, x) * factor * 0.5 * half, growth * factor)


def cosh(z: Complex) -> Complex:
    """The hyperbolic cosine; infinite beside an angle that is not finite."""
    x, cosine, sine = exponential.cosh(z.real), cos_f64_inline(z.imag), sin_f64_inline(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(abs(z.real), x, cosine))
    across = _grown(z.real, exponential.sinh(z.real), sine)
    real_or_turned = z.imag.equals(0) | z.real.equals(0)
    return Complex(along, select(real_or_turned, across.constant(0), across))


def tanh(z: Complex) -> Complex:
    """The hyperbolic tangent, NaN where the imaginary part is not finite and the real one small."""
    tangent = tan_f64_inline(z.imag)
    square = tangent * tangent + 1
    far = abs(z.real) > 20
    sine = exponential.sinh(select(far, z.real.constant(0), z.real))
    cosine = real.sqrt(real.fma(sine, sine, 1))
    below = real.fma(square, sine * sine, 1)
    near = Complex(square * cosine * sine / below, tangent / below)
    # sinh 2x and sin 2y over cosh 2x + cos 2y, which has fewer roundings, where that is no
    # difference.
    doubled = select(far, z.real.constant(0), z.real) * 2
    turned = cos_f64_inline(z.imag * 2)
    total = exponential.cosh(doubled) + turned
    plain = Complex(exponential.sinh(doubled) / total, sin_f64_inline(z.imag * 2) / total)
    # Twice the largest angles is infinite.
    near = choose((turned > -0.25) | ((abs(z.real) > 1) & is_finite(turned)), plain, near)
    decay = exponential.exp(abs(z.real) * -2)
    end = Complex(with_sign(decay.constant(1), z.real), tangent / square * decay * 4)
    result = choose(far, end, near)
    result = Complex(result.real, select(z.imag.equals(0), z.imag, result.imag))
    limit = Complex(with_sign(decay.constant(1), z.real), z.real.constant(0))
    is_undefined = z.real.differs(z.real)
    result = Complex(select(is_undefined, z.real, result.real), result.imag)
    return choose(is_infinite(z.real), limit, undefined(~is_finite(z.imag), result))


def tan(z: Complex) -> Complex:
    """The tangent, NaN where the real part is not finite and the imaginary one decides nothing."""
    return tanh(z.times_i()).over_i()


FORMULAS = {
    **complex_family(cos, cosh, exp, expm1, complex_logistic, sin, sinh, tan, tanh),
    **family(logistic),
}
"""Every function of this module by its name in kernels."""
