"""Broken factorisations, transforms, normalisations and random numbers."""

from collections.abc import Sequence

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_contract.ops.linear_algebra.triangular_solve import TriangularSolveAttributes
from xla_contract.ops.random.rng import RandomDistribution, RngAttributes
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.ops.reduction.batch_norm import BatchNormAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_CHOLESKYS = tuple(
    Case(
        name,
        Opcode.CHOLESKY,
        (operand,),
        f"the operand must be square floating or complex matrices, got {operand}",
        CholeskyAttributes(True),
        ops.cholesky,
        declared="f32[2,2]",
    )
    for name, operand in (
        ("of-integers", "s32[2,2]"),
        ("of-a-vector", "f32[2]"),
        ("of-a-wide-matrix", "f32[2,3]"),
        ("of-a-tuple", "(f32[2,2])"),
    )
)


def _solve(name: str, message: str, matrix: str, right: str, left_side: bool = True) -> Case:
    return Case(
        name,
        Opcode.TRIANGULAR_SOLVE,
        (matrix, right),
        message,
        TriangularSolveAttributes(left_side, True, False),
        lambda a, b: ops.triangular_solve(a, b, left_side),
        declared=right,
    )


_SOLVES = (
    _solve(
        "of-a-wide-matrix",
        "the operand must be square floating or complex matrices, got f32[2,3]",
        "f32[2,3]",
        "f32[2,3]",
    ),
    _solve(
        "of-integers",
        "the operand must be square floating or complex matrices, got s32[2,2]",
        "s32[2,2]",
        "s32[2,3]",
    ),
    _solve(
        "of-different-types",
        "a and b must agree in type, batch and the solved dimension (-2 of b), got a f32[2,2]"
        " and b f64[2,3]",
        "f32[2,2]",
        "f64[2,3]",
    ),
    _solve(
        "of-different-ranks",
        "a and b must agree in type, batch and the solved dimension (-2 of b), got a f32[2,2]"
        " and b f32[2]",
        "f32[2,2]",
        "f32[2]",
    ),
    _solve(
        "of-different-batches",
        "a and b must agree in type, batch and the solved dimension (-2 of b), got a "
        "f32[3,2,2] and b f32[4,2,3]",
        "f32[3,2,2]",
        "f32[4,2,3]",
    ),
    _solve(
        "of-too-many-rows",
        "a and b must agree in type, batch and the solved dimension (-2 of b), got a f32[2,2]"
        " and b f32[3,2]",
        "f32[2,2]",
        "f32[3,2]",
    ),
    _solve(
        "of-too-many-columns",
        "a and b must agree in type, batch and the solved dimension (-1 of b), got a f32[2,2]"
        " and b f32[2,3]",
        "f32[2,2]",
        "f32[2,3]",
        left_side=False,
    ),
    Case(
        "of-an-unknown-transposition",
        Opcode.TRIANGULAR_SOLVE,
        ("f32[2,2]", "f32[2,2]"),
        "transpose_a must be one of 1 (no_transpose), 2 (transpose), 3 (adjoint), got 0",
        TriangularSolveAttributes(True, True, False),
        "the transposition is an enumeration in Python",
        declared="f32[2,2]",
        edit=lambda proto: setattr(proto.triangular_solve_options, "transpose_a", 0),
    ),
)


def _fft(name: str, message: str, operand: str, kind: FftType, length: Sequence[int]) -> Case:
    return Case(
        name,
        Opcode.FFT,
        (operand,),
        message,
        FftAttributes(kind, tuple(length)),
        lambda x: ops.fft(x, kind, length),
        declared=operand,
    )


_FFTS = (
    _fft(
        "of-no-dimension",
        "fft_length must name one to three last dimensions, got [] for c64[4]",
        "c64[4]",
        FftType.FFT,
        (),
    ),
    _fft(
        "of-four-dimensions",
        "fft_length must name one to three last dimensions, got [2, 2, 2, 2] for c64[2,2,2,2]",
        "c64[2,2,2,2]",
        FftType.FFT,
        (2, 2, 2, 2),
    ),
    _fft(
        "of-more-dimensions-than-there-are",
        "fft_length must name one to three last dimensions, got [1, 4] for c64[4]",
        "c64[4]",
        FftType.FFT,
        (1, 4),
    ),
    _fft(
        "of-negative-length",
        "fft_length must name one to three last dimensions, got [-4] for c64[4]",
        "c64[4]",
        FftType.FFT,
        (-4,),
    ),
    _fft(
        "of-another-length",
        "IFFT of length [3] must be applied to last dimensions [3], got c64[4]",
        "c64[4]",
        FftType.IFFT,
        (3,),
    ),
    _fft(
        "of-real-numbers",
        "FFT must be applied to c64 or c128, got f32[4]",
        "f32[4]",
        FftType.FFT,
        (4,),
    ),
    _fft(
        "of-complex-numbers-as-real",
        "RFFT must be applied to f32 or f64, got c64[4]",
        "c64[4]",
        FftType.RFFT,
        (4,),
    ),
    _fft(
        "of-half-precision",
        "RFFT must be applied to f32 or f64, got f16[4]",
        "f16[4]",
        FftType.RFFT,
        (4,),
    ),
    _fft(
        "to-real-numbers-from-another-length",
        "IRFFT of length [4] must be applied to last dimensions [3], got c64[4]",
        "c64[4]",
        FftType.IRFFT,
        (4,),
    ),
    _fft(
        "of-a-tuple",
        "fft_length must name one to three last dimensions, got [4] for (c64[4])",
        "(c64[4])",
        FftType.FFT,
        (4,),
    ),
    Case(
        "of-an-unknown-kind",
        Opcode.FFT,
        ("c64[4]",),
        "fft_type must be one of 0 (fft), 1 (ifft), 2 (rfft), 3 (irfft), got 9",
        FftAttributes(FftType.FFT, (4,)),
        "the kind is an enumeration in Python",
        declared="c64[4]",
        edit=lambda proto: setattr(proto, "fft_type", 9),
    ),
)

_NORM = BatchNormAttributes(0.5, 1)
_VECTORS = ("f32[3]", "f32[3]")


def _training(name: str, message: str, operands: Sequence[str], feature: int = 1) -> Case:
    return Case(
        name,
        Opcode.BATCH_NORM_TRAINING,
        operands,
        message,
        BatchNormAttributes(0.5, feature),
        lambda x, scale, offset: ops.batch_norm_training(x, scale, offset, 0.5, feature),
        declared="(f32[2,3], f32[3], f32[3])",
    )


_BATCH_NORMS = (
    _training(
        "of-a-tuple", "the operand must be an array, got (f32[2,3])", ("(f32[2,3])", *_VECTORS)
    ),
    _training(
        "along-no-dimension",
        "feature_index must be in range [0, 2), got 2 for f32[2,3]",
        ("f32[2,3]", *_VECTORS),
        2,
    ),
    _training(
        "along-a-negative-dimension",
        "feature_index must be in range [0, 2), got -1 for f32[2,3]",
        ("f32[2,3]", *_VECTORS),
        -1,
    ),
    _training(
        "of-integers",
        "the operand must be of floating type, got s32[2,3]",
        ("s32[2,3]", "s32[3]", "s32[3]"),
    ),
    _training(
        "with-a-long-scale",
        "scale, offset, mean and variance must be f32[3] for feature dimension 1 of f32[2,3],"
        " got (f32[2], f32[3])",
        ("f32[2,3]", "f32[2]", "f32[3]"),
    ),
    _training(
        "with-an-offset-of-another-type",
        "scale, offset, mean and variance must be f32[3] for feature dimension 1 of f32[2,3],"
        " got (f32[3], f64[3])",
        ("f32[2,3]", "f32[3]", "f64[3]"),
    ),
    Case(
        "with-a-scalar-mean",
        Opcode.BATCH_NORM_INFERENCE,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[]", "f32[3]"),
        "scale, offset, mean and variance must be f32[3] for feature dimension 1 of f32[2,3],"
        " got (f32[3], f32[3], f32[], f32[3])",
        _NORM,
        lambda *given: ops.batch_norm_inference(*given, 0.5, 1),
        declared="f32[2,3]",
    ),
    Case(
        "with-a-long-variance",
        Opcode.BATCH_NORM_GRAD,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[4]", "f32[2,3]"),
        "scale, offset, mean and variance must be f32[3] for feature dimension 1 of f32[2,3],"
        " got (f32[3], f32[3], f32[4])",
        _NORM,
        lambda *given: ops.batch_norm_grad(*given, 0.5, 1),
        declared="(f32[2,3], f32[3], f32[3])",
    ),
    Case(
        "with-another-gradient",
        Opcode.BATCH_NORM_GRAD,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[3]", "f32[3,2]"),
        "grad_output must have the operand's shape, got f32[3,2] and f32[2,3]",
        _NORM,
        lambda *given: ops.batch_norm_grad(*given, 0.5, 1),
        declared="(f32[2,3], f32[3], f32[3])",
    ),
)


def _rng(
    name: str,
    message: str,
    operands: Sequence[str],
    shape: str = "f32[2]",
    distribution: RandomDistribution = RandomDistribution.UNIFORM,
) -> Case:
    function = ops.rng_uniform if distribution is RandomDistribution.UNIFORM else ops.rng_normal
    return Case(
        name,
        Opcode.RNG,
        operands,
        message,
        RngAttributes(distribution, Shape.parse(shape)),
        (lambda a, b: function(a, b, Shape.parse(shape)))
        if len(operands) == 2
        else "the function takes two operands",
        declared=shape,
    )


def _bits(
    name: str,
    message: str,
    state: str,
    shape: str = "u32[2]",
    algorithm: RandomAlgorithm = RandomAlgorithm.PHILOX,
) -> Case:
    return Case(
        name,
        Opcode.RNG_BIT_GENERATOR,
        (state,),
        message,
        RngBitGeneratorAttributes(algorithm, Shape.parse(shape)),
        lambda x: ops.rng_bit_generator(algorithm, x, Shape.parse(shape)),
        declared=f"({state}, {shape})",
    )


_THREE_FRY = RandomAlgorithm.THREE_FRY

_RANDOM = (
    _rng(
        "of-a-tuple",
        "random numbers must be asked for as an array, got (f32[2])",
        ("f32[]", "f32[]"),
        "(f32[2])",
    ),
    _rng(
        "of-one-operand",
        "operands must be two scalars of the result's type, got (f32[]) for f32[2]",
        ("f32[]",),
    ),
    _rng(
        "between-arrays",
        "operands must be two scalars of the result's type, got (f32[2], f32[2]) for f32[2]",
        ("f32[2]", "f32[2]"),
    ),
    _rng(
        "of-another-type",
        "operands must be two scalars of the result's type, got (f64[], f64[]) for f32[2]",
        ("f64[]", "f64[]"),
    ),
    _rng(
        "between-different-types",
        "operands must be two scalars of the result's type, got (f32[], s32[]) for f32[2]",
        ("f32[]", "s32[]"),
    ),
    _rng(
        "of-pred",
        "a uniform distribution must be of real numbers, got pred[2]",
        ("pred[]", "pred[]"),
        "pred[2]",
    ),
    _rng(
        "of-complex",
        "a uniform distribution must be of real numbers, got c64[2]",
        ("c64[]", "c64[]"),
        "c64[2]",
    ),
    _rng(
        "of-normal-integers",
        "a normal distribution must be of floating numbers, got s32[2]",
        ("s32[]", "s32[]"),
        "s32[2]",
        RandomDistribution.NORMAL,
    ),
    Case(
        "of-an-unknown-distribution",
        Opcode.RNG,
        ("f32[]", "f32[]"),
        "distribution must be one of 1 (uniform), 2 (normal), got 0",
        RngAttributes(RandomDistribution.UNIFORM, Shape.parse("f32[2]")),
        "there is one function for each distribution",
        edit=lambda proto: setattr(proto, "distribution", 0),
    ),
    _bits(
        "from-a-short-state", "the state of philox must be u64[2] or u64[3], got u64[1]", "u64[1]"
    ),
    _bits(
        "from-a-long-state-for-three-fry",
        "the state of three_fry must be u64[2], got u64[3]",
        "u64[3]",
        algorithm=_THREE_FRY,
    ),
    _bits(
        "from-a-narrow-state", "the state of philox must be u64[2] or u64[3], got u32[2]", "u32[2]"
    ),
    _bits("from-a-token", "the state of philox must be u64[2] or u64[3], got token[]", "token[]"),
    _bits(
        "from-a-dynamic-state",
        "the state of philox must be u64[2] or u64[3], got u64[<=2]",
        "u64[<=2]",
    ),
    _bits(
        "of-pred",
        "the element type of the random bits must be integral or floating, of 1, 2, 4, 8, 16,"
        " 32 or 64 bits, got pred[2]",
        "u64[2]",
        "pred[2]",
    ),
    _bits(
        "of-six-bits",
        "the element type of the random bits must be integral or floating, of 1, 2, 4, 8, 16,"
        " 32 or 64 bits, got f6e2m3fn[2]",
        "u64[2]",
        "f6e2m3fn[2]",
    ),
    _bits("of-a-tuple", "the random bits must be an array, got (u32[2])", "u64[2]", "(u32[2])"),
    _bits(
        "of-dynamic-size",
        "random bits must have a static shape, got u32[<=2]",
        "u64[2]",
        "u32[<=2]",
    ),
    Case(
        "of-an-unknown-algorithm",
        Opcode.RNG_BIT_GENERATOR,
        ("u64[2]",),
        "rng_algorithm must be one of 0 (default), 1 (three_fry), 2 (philox), got 7",
        RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, Shape.parse("u32[2]")),
        "the algorithm is an enumeration in Python",
        declared="(u64[2], u32[2])",
        edit=lambda proto: setattr(proto, "rng_algorithm", 7),
    ),
    Case(
        "that-gives-an-array",
        Opcode.RNG_BIT_GENERATOR,
        ("u64[2]",),
        "the result must be a state and bits, got u32[2]",
        RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, Shape.parse("u32[2]")),
        "the builder declares the pair itself",
        declared="u32[2]",
        edit=lambda proto: proto,
    ),
)

CASES: tuple[Case, ...] = (*_CHOLESKYS, *_SOLVES, *_FFTS, *_BATCH_NORMS, *_RANDOM)
