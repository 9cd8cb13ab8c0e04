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

_SQUARE = "the operand must be square floating or complex matrices, got "
_AGREE = "a and b must agree in type, batch and the solved dimension (-2 of b), got "
_FFT_LENGTH = "fft_length must name one to three last dimensions, got "
_PER_FEATURE = (
    "scale, offset, mean and variance must be f32[3] for feature dimension 1 of f32[2,3], got "
)
_TWO_SCALARS = "operands must be two scalars of the result's type, got "
_RANDOM_BITS = (
    "the element type of the random bits must be integral or floating, of 1, 2, 4, 8, 16, 32 "
    "or 64 bits, got "
)

_CHOLESKYS = tuple(
    Case(
        Opcode.CHOLESKY,
        (operand,),
        f"the operand must be square floating or complex matrices, got {operand}",
        CholeskyAttributes(True),
        ops.cholesky,
        declared="f32[2,2]",
    )
    for operand in ("f32[2]", "f32[2,3]")
)


def _solve(message: str, matrix: str, right: str, left_side: bool = True) -> Case:
    return Case(
        Opcode.TRIANGULAR_SOLVE,
        (matrix, right),
        message,
        TriangularSolveAttributes(left_side, True, False),
        lambda a, b: ops.triangular_solve(a, b, left_side),
        declared=right,
    )


_SOLVES = (
    _solve(_SQUARE + "s32[2,2]", "s32[2,2]", "s32[2,3]"),
    _solve(_AGREE + "a f32[2,2] and b f64[2,3]", "f32[2,2]", "f64[2,3]"),
    _solve(_AGREE + "a f32[2,2] and b f32[2]", "f32[2,2]", "f32[2]"),
    _solve(_AGREE + "a f32[3,2,2] and b f32[4,2,3]", "f32[3,2,2]", "f32[4,2,3]"),
    _solve(
        "a and b must agree in type, batch and the solved dimension (-1 of b), got a f32[2,2]"
        " and b f32[2,3]",
        "f32[2,2]",
        "f32[2,3]",
        left_side=False,
    ),
    Case(
        Opcode.TRIANGULAR_SOLVE,
        ("f32[2,2]", "f32[2,2]"),
        "transpose_a must be one of 1 (no_transpose), 2 (transpose), 3 (adjoint), got 0",
        TriangularSolveAttributes(True, True, False),
        "the transposition is an enumeration in Python",
        declared="f32[2,2]",
        edit=lambda proto: setattr(proto.triangular_solve_options, "transpose_a", 0),
    ),
)


def _fft(message: str, operand: str, kind: FftType, length: Sequence[int]) -> Case:
    return Case(
        Opcode.FFT,
        (operand,),
        message,
        FftAttributes(kind, tuple(length)),
        lambda x: ops.fft(x, kind, length),
        declared=operand,
    )


_FFTS = (
    _fft(_FFT_LENGTH + "[] for c64[4]", "c64[4]", FftType.FFT, ()),
    _fft(_FFT_LENGTH + "[2, 2, 2, 2] for c64[2,2,2,2]", "c64[2,2,2,2]", FftType.FFT, (2, 2, 2, 2)),
    _fft(_FFT_LENGTH + "[-4] for c64[4]", "c64[4]", FftType.FFT, (-4,)),
    _fft(
        "IFFT of length [3] must be applied to last dimensions [3], got c64[4]",
        "c64[4]",
        FftType.IFFT,
        (3,),
    ),
    _fft("RFFT must be applied to f32 or f64, got f16[4]", "f16[4]", FftType.RFFT, (4,)),
    _fft(
        "IRFFT of length [4] must be applied to last dimensions [3], got c64[4]",
        "c64[4]",
        FftType.IRFFT,
        (4,),
    ),
    _fft(_FFT_LENGTH + "[4] for (c64[4])", "(c64[4])", FftType.FFT, (4,)),
    Case(
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


def _training(message: str, operands: Sequence[str], feature: int = 1) -> Case:
    return Case(
        Opcode.BATCH_NORM_TRAINING,
        operands,
        message,
        BatchNormAttributes(0.5, feature),
        lambda x, scale, offset: ops.batch_norm_training(x, scale, offset, 0.5, feature),
        declared="(f32[2,3], f32[3], f32[3])",
    )


_BATCH_NORMS = (
    _training("the operand must be an array, got (f32[2,3])", ("(f32[2,3])", *_VECTORS)),
    _training(
        "feature_index must be in range [0, 2), got 2 for f32[2,3]", ("f32[2,3]", *_VECTORS), 2
    ),
    _training(
        "feature_index must be in range [0, 2), got -1 for f32[2,3]", ("f32[2,3]", *_VECTORS), -1
    ),
    _training(
        "the operand must be of floating type, got s32[2,3]", ("s32[2,3]", "s32[3]", "s32[3]")
    ),
    _training(_PER_FEATURE + "(f32[3], f64[3])", ("f32[2,3]", "f32[3]", "f64[3]")),
    Case(
        Opcode.BATCH_NORM_INFERENCE,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[]", "f32[3]"),
        _PER_FEATURE + "(f32[3], f32[3], f32[], f32[3])",
        _NORM,
        lambda *given: ops.batch_norm_inference(*given, 0.5, 1),
        declared="f32[2,3]",
    ),
    Case(
        Opcode.BATCH_NORM_GRAD,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[4]", "f32[2,3]"),
        _PER_FEATURE + "(f32[3], f32[3], f32[4])",
        _NORM,
        lambda *given: ops.batch_norm_grad(*given, 0.5, 1),
        declared="(f32[2,3], f32[3], f32[3])",
    ),
    Case(
        Opcode.BATCH_NORM_GRAD,
        ("f32[2,3]", "f32[3]", "f32[3]", "f32[3]", "f32[3,2]"),
        "grad_output must have the operand's shape, got f32[3,2] and f32[2,3]",
        _NORM,
        lambda *given: ops.batch_norm_grad(*given, 0.5, 1),
        declared="(f32[2,3], f32[3], f32[3])",
    ),
)


def _rng(
    message: str,
    operands: Sequence[str],
    shape: str = "f32[2]",
    distribution: RandomDistribution = RandomDistribution.UNIFORM,
) -> Case:
    function = ops.rng_uniform if distribution is RandomDistribution.UNIFORM else ops.rng_normal
    return Case(
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
    message: str,
    state: str,
    shape: str = "u32[2]",
    algorithm: RandomAlgorithm = RandomAlgorithm.PHILOX,
) -> Case:
    return Case(
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
        "random numbers must be asked for as an array, got (f32[2])", ("f32[]", "f32[]"), "(f32[2])"
    ),
    _rng(_TWO_SCALARS + "(f32[]) for f32[2]", ("f32[]",)),
    _rng(_TWO_SCALARS + "(f32[2], f32[2]) for f32[2]", ("f32[2]", "f32[2]")),
    _rng(_TWO_SCALARS + "(f32[], s32[]) for f32[2]", ("f32[]", "s32[]")),
    _rng(
        "a uniform distribution must be of real numbers, got c64[2]", ("c64[]", "c64[]"), "c64[2]"
    ),
    _rng(
        "a normal distribution must be of floating numbers, got s32[2]",
        ("s32[]", "s32[]"),
        "s32[2]",
        RandomDistribution.NORMAL,
    ),
    Case(
        Opcode.RNG,
        ("f32[]", "f32[]"),
        "distribution must be one of 1 (uniform), 2 (normal), got 0",
        RngAttributes(RandomDistribution.UNIFORM, Shape.parse("f32[2]")),
        "there is one function for each distribution",
        edit=lambda proto: setattr(proto, "distribution", 0),
    ),
    _bits("the state of three_fry must be u64[2], got u64[3]", "u64[3]", algorithm=_THREE_FRY),
    _bits("the state of philox must be u64[2] or u64[3], got u32[2]", "u32[2]"),
    _bits("the state of philox must be u64[2] or u64[3], got u64[<=2]", "u64[<=2]"),
    _bits(_RANDOM_BITS + "pred[2]", "u64[2]", "pred[2]"),
    _bits("the random bits must be an array, got (u32[2])", "u64[2]", "(u32[2])"),
    _bits("random bits must have a static shape, got u32[<=2]", "u64[2]", "u32[<=2]"),
    Case(
        Opcode.RNG_BIT_GENERATOR,
        ("u64[2]",),
        "rng_algorithm must be one of 0 (default), 1 (three_fry), 2 (philox), got 7",
        RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, Shape.parse("u32[2]")),
        "the algorithm is an enumeration in Python",
        declared="(u64[2], u32[2])",
        edit=lambda proto: setattr(proto, "rng_algorithm", 7),
    ),
    Case(
        Opcode.RNG_BIT_GENERATOR,
        ("u64[2]",),
        "the result must be a state and bits, got (u32[2])",
        RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, Shape.parse("u32[2]")),
        "the builder declares the pair itself",
        declared="(u32[2])",
        edit=lambda proto: proto,
    ),
)

CASES: tuple[Case, ...] = (*_CHOLESKYS, *_SOLVES, *_FFTS, *_BATCH_NORMS, *_RANDOM)
