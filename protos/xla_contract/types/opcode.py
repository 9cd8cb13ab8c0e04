"""The opcodes of HLO: their names on the wire and how many operands each takes."""

import enum
from typing import Self

VARIADIC = -1
"""The arity of an opcode that takes any number of operands."""


class Opcode(enum.StrEnum):
    """Every opcode: its string in HloInstructionProto.opcode, and its arity."""

    arity: int
    """The number of operands, or VARIADIC."""

    def __new__(cls, text: str, arity: int) -> Self:
        """Make the member of one row."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.arity = arity
        return member

    ABS = "abs", 1
    ACOS = "acos", 1
    ACOSH = "acosh", 1
    ADD = "add", 2
    ADD_DEPENDENCY = "add-dependency", 2
    AFTER_ALL = "after-all", VARIADIC
    ALL_GATHER = "all-gather", VARIADIC
    ALL_GATHER_DONE = "all-gather-done", 1
    ALL_GATHER_START = "all-gather-start", VARIADIC
    ALL_REDUCE = "all-reduce", VARIADIC
    ALL_REDUCE_DONE = "all-reduce-done", 1
    ALL_REDUCE_START = "all-reduce-start", VARIADIC
    ALL_TO_ALL = "all-to-all", VARIADIC
    AND = "and", 2
    ASIN = "asin", 1
    ASINH = "asinh", 1
    ASYNC_DONE = "async-done", 1
    ASYNC_START = "async-start", VARIADIC
    ASYNC_UPDATE = "async-update", VARIADIC
    ATAN = "atan", 1
    ATAN2 = "atan2", 2
    ATANH = "atanh", 1
    BATCH_NORM_GRAD = "batch-norm-grad", 5
    BATCH_NORM_INFERENCE = "batch-norm-inference", 5
    BATCH_NORM_TRAINING = "batch-norm-training", 3
    BITCAST = "bitcast", 1
    BITCAST_CONVERT = "bitcast-convert", 1
    BROADCAST = "broadcast", 1
    CALL = "call", VARIADIC
    CBRT = "cbrt", 1
    CEIL = "ceil", 1
    CHOLESKY = "cholesky", 1
    CLAMP = "clamp", 3
    COLLECTIVE_BROADCAST = "collective-broadcast", VARIADIC
    COLLECTIVE_PERMUTE = "collective-permute", VARIADIC
    COLLECTIVE_PERMUTE_DONE = "collective-permute-done", 1
    COLLECTIVE_PERMUTE_START = "collective-permute-start", VARIADIC
    COLLECTIVE_REDUCE = "collective-reduce", VARIADIC
    COMPARE = "compare", 2
    COMPLEX = "complex", 2
    CONCATENATE = "concatenate", VARIADIC
    CONDITIONAL = "conditional", VARIADIC
    CONSTANT = "constant", 0
    CONVERT = "convert", 1
    CONVOLUTION = "convolution", 2
    COPY = "copy", 1
    COPY_DONE = "copy-done", 1
    COPY_START = "copy-start", 1
    COSH = "cosh", 1
    COSINE = "cosine", 1
    COUNT_LEADING_ZEROS = "count-leading-zeros", 1
    CUSTOM_CALL = "custom-call", VARIADIC
    DIVIDE = "divide", 2
    DOMAIN = "domain", 1
    DOT = "dot", 2
    DYNAMIC_RESHAPE = "dynamic-reshape", VARIADIC
    DYNAMIC_SLICE = "dynamic-slice", VARIADIC
    DYNAMIC_UPDATE_SLICE = "dynamic-update-slice", VARIADIC
    ERF = "erf", 1
    EXPONENTIAL = "exponential", 1
    EXPONENTIAL_MINUS_ONE = "exponential-minus-one", 1
    FFT = "fft", 1
    FLOOR = "floor", 1
    FUSION = "fusion", VARIADIC
    GATHER = "gather", 2
    GET_DIMENSION_SIZE = "get-dimension-size", 1
    GET_TUPLE_ELEMENT = "get-tuple-element", 1
    IMAG = "imag", 1
    INFEED = "infeed", 1
    IOTA = "iota", 0
    IS_FINITE = "is-finite", 1
    LOG = "log", 1
    LOG_PLUS_ONE = "log-plus-one", 1
    LOGISTIC = "logistic", 1
    MAP = "map", VARIADIC
    MAXIMUM = "maximum", 2
    MINIMUM = "minimum", 2
    MULHI = "mulhi", 2
    MULTIPLY = "multiply", 2
    NEGATE = "negate", 1
    NOT = "not", 1
    OPT_BARRIER = "opt-barrier", 1
    OR = "or", 2
    OUTFEED = "outfeed", 2
    PAD = "pad", 2
    PARAMETER = "parameter", 0
    PARTITION_ID = "partition-id", 0
    POPCNT = "popcnt", 1
    POWER = "power", 2
    RAGGED_ALL_TO_ALL = "ragged-all-to-all", 6
    RAGGED_DOT = "ragged-dot", 3
    REAL = "real", 1
    RECV = "recv", 1
    RECV_DONE = "recv-done", 1
    REDUCE = "reduce", VARIADIC
    REDUCE_PRECISION = "reduce-precision", 1
    REDUCE_SCATTER = "reduce-scatter", VARIADIC
    REDUCE_WINDOW = "reduce-window", VARIADIC
    REMAINDER = "remainder", 2
    REPLICA_ID = "replica-id", 0
    RESHAPE = "reshape", 1
    REVERSE = "reverse", 1
    RNG = "rng", VARIADIC
    RNG_BIT_GENERATOR = "rng-bit-generator", 1
    RNG_GET_AND_UPDATE_STATE = "rng-get-and-update-state", 0
    ROUND_NEAREST_AFZ = "round-nearest-afz", 1
    ROUND_NEAREST_EVEN = "round-nearest-even", 1
    RSQRT = "rsqrt", 1
    SCALED_DOT = "scaled-dot", 4
    SCAN = "scan", VARIADIC
    SCATTER = "scatter", VARIADIC
    SELECT = "select", 3
    SELECT_AND_SCATTER = "select-and-scatter", 3
    SEND = "send", 2
    SEND_DONE = "send-done", 1
    SET_DIMENSION_SIZE = "set-dimension-size", 2
    SHIFT_LEFT = "shift-left", 2
    SHIFT_RIGHT_ARITHMETIC = "shift-right-arithmetic", 2
    SHIFT_RIGHT_LOGICAL = "shift-right-logical", 2
    SHUFFLE = "shuffle", 1
    SIGN = "sign", 1
    SINE = "sine", 1
    SINH = "sinh", 1
    SLICE = "slice", 1
    SORT = "sort", VARIADIC
    SQRT = "sqrt", 1
    STOCHASTIC_CONVERT = "stochastic-convert", 2
    SUBTRACT = "subtract", 2
    TAN = "tan", 1
    TANH = "tanh", 1
    TOPK = "topk", 1
    TRANSPOSE = "transpose", 1
    TRIANGULAR_SOLVE = "triangular-solve", 2
    TUPLE = "tuple", VARIADIC
    WHILE = "while", 1
    XOR = "xor", 2
