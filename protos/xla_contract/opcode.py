"""The opcodes of HLO: their names on the wire and how many operands each takes."""

import enum

VARIADIC = -1
"""The arity of an opcode that takes any number of operands."""


class Opcode(enum.StrEnum):
    """Every opcode, by its string in HloInstructionProto.opcode."""

    ABS = "abs"
    ACOS = "acos"
    ACOSH = "acosh"
    ADD = "add"
    ADD_DEPENDENCY = "add-dependency"
    AFTER_ALL = "after-all"
    ALL_GATHER = "all-gather"
    ALL_GATHER_DONE = "all-gather-done"
    ALL_GATHER_START = "all-gather-start"
    ALL_REDUCE = "all-reduce"
    ALL_REDUCE_DONE = "all-reduce-done"
    ALL_REDUCE_START = "all-reduce-start"
    ALL_TO_ALL = "all-to-all"
    AND = "and"
    ASIN = "asin"
    ASINH = "asinh"
    ASYNC_DONE = "async-done"
    ASYNC_START = "async-start"
    ASYNC_UPDATE = "async-update"
    ATAN = "atan"
    ATAN2 = "atan2"
    ATANH = "atanh"
    BATCH_NORM_GRAD = "batch-norm-grad"
    BATCH_NORM_INFERENCE = "batch-norm-inference"
    BATCH_NORM_TRAINING = "batch-norm-training"
    BITCAST = "bitcast"
    BITCAST_CONVERT = "bitcast-convert"
    BROADCAST = "broadcast"
    CALL = "call"
    CBRT = "cbrt"
    CEIL = "ceil"
    CHOLESKY = "cholesky"
    CLAMP = "clamp"
    COLLECTIVE_BROADCAST = "collective-broadcast"
    COLLECTIVE_PERMUTE = "collective-permute"
    COLLECTIVE_PERMUTE_DONE = "collective-permute-done"
    COLLECTIVE_PERMUTE_START = "collective-permute-start"
    COLLECTIVE_REDUCE = "collective-reduce"
    COMPARE = "compare"
    COMPLEX = "complex"
    CONCATENATE = "concatenate"
    CONDITIONAL = "conditional"
    CONSTANT = "constant"
    CONVERT = "convert"
    CONVOLUTION = "convolution"
    COPY = "copy"
    COPY_DONE = "copy-done"
    COPY_START = "copy-start"
    COSH = "cosh"
    COSINE = "cosine"
    COUNT_LEADING_ZEROS = "count-leading-zeros"
    CUSTOM_CALL = "custom-call"
    DIVIDE = "divide"
    DOMAIN = "domain"
    DOT = "dot"
    DYNAMIC_RESHAPE = "dynamic-reshape"
    DYNAMIC_SLICE = "dynamic-slice"
    DYNAMIC_UPDATE_SLICE = "dynamic-update-slice"
    ERF = "erf"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_MINUS_ONE = "exponential-minus-one"
    FFT = "fft"
    FLOOR = "floor"
    FUSION = "fusion"
    GATHER = "gather"
    GET_DIMENSION_SIZE = "get-dimension-size"
    GET_TUPLE_ELEMENT = "get-tuple-element"
    IMAG = "imag"
    INFEED = "infeed"
    IOTA = "iota"
    IS_FINITE = "is-finite"
    LOG = "log"
    LOG_PLUS_ONE = "log-plus-one"
    LOGISTIC = "logistic"
    MAP = "map"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    MULHI = "mulhi"
    MULTIPLY = "multiply"
    NEGATE = "negate"
    NOT = "not"
    OPT_BARRIER = "opt-barrier"
    OR = "or"
    OUTFEED = "outfeed"
    PAD = "pad"
    PARAMETER = "parameter"
    PARTITION_ID = "partition-id"
    POPCNT = "popcnt"
    POWER = "power"
    RAGGED_ALL_TO_ALL = "ragged-all-to-all"
    RAGGED_DOT = "ragged-dot"
    REAL = "real"
    RECV = "recv"
    RECV_DONE = "recv-done"
    REDUCE = "reduce"
    REDUCE_PRECISION = "reduce-precision"
    REDUCE_SCATTER = "reduce-scatter"
    REDUCE_WINDOW = "reduce-window"
    REMAINDER = "remainder"
    REPLICA_ID = "replica-id"
    RESHAPE = "reshape"
    REVERSE = "reverse"
    RNG = "rng"
    RNG_BIT_GENERATOR = "rng-bit-generator"
    RNG_GET_AND_UPDATE_STATE = "rng-get-and-update-state"
    ROUND_NEAREST_AFZ = "round-nearest-afz"
    ROUND_NEAREST_EVEN = "round-nearest-even"
    RSQRT = "rsqrt"
    SCALED_DOT = "scaled-dot"
    SCAN = "scan"
    SCATTER = "scatter"
    SELECT = "select"
    SELECT_AND_SCATTER = "select-and-scatter"
    SEND = "send"
    SEND_DONE = "send-done"
    SET_DIMENSION_SIZE = "set-dimension-size"
    SHIFT_LEFT = "shift-left"
    SHIFT_RIGHT_ARITHMETIC = "shift-right-arithmetic"
    SHIFT_RIGHT_LOGICAL = "shift-right-logical"
    SHUFFLE = "shuffle"
    SIGN = "sign"
    SINE = "sine"
    SINH = "sinh"
    SLICE = "slice"
    SORT = "sort"
    SQRT = "sqrt"
    STOCHASTIC_CONVERT = "stochastic-convert"
    SUBTRACT = "subtract"
    TAN = "tan"
    TANH = "tanh"
    TOPK = "topk"
    TRANSPOSE = "transpose"
    TRIANGULAR_SOLVE = "triangular-solve"
    TUPLE = "tuple"
    WHILE = "while"
    XOR = "xor"

    @property
    def arity(self) -> int:
        """The number of operands, or VARIADIC."""
        return ARITY[self]


ARITY: dict[Opcode, int] = {
    Opcode.ABS: 1,
    Opcode.ACOS: 1,
    Opcode.ACOSH: 1,
    Opcode.ADD: 2,
    Opcode.ADD_DEPENDENCY: 2,
    Opcode.AFTER_ALL: VARIADIC,
    Opcode.ALL_GATHER: VARIADIC,
    Opcode.ALL_GATHER_DONE: 1,
    Opcode.ALL_GATHER_START: VARIADIC,
    Opcode.ALL_REDUCE: VARIADIC,
    Opcode.ALL_REDUCE_DONE: 1,
    Opcode.ALL_REDUCE_START: VARIADIC,
    Opcode.ALL_TO_ALL: VARIADIC,
    Opcode.AND: 2,
    Opcode.ASIN: 1,
    Opcode.ASINH: 1,
    Opcode.ASYNC_DONE: 1,
    Opcode.ASYNC_START: VARIADIC,
    Opcode.ASYNC_UPDATE: VARIADIC,
    Opcode.ATAN: 1,
    Opcode.ATAN2: 2,
    Opcode.ATANH: 1,
    Opcode.BATCH_NORM_GRAD: 5,
    Opcode.BATCH_NORM_INFERENCE: 5,
    Opcode.BATCH_NORM_TRAINING: 3,
    Opcode.BITCAST: 1,
    Opcode.BITCAST_CONVERT: 1,
    Opcode.BROADCAST: 1,
    Opcode.CALL: VARIADIC,
    Opcode.CBRT: 1,
    Opcode.CEIL: 1,
    Opcode.CHOLESKY: 1,
    Opcode.CLAMP: 3,
    Opcode.COLLECTIVE_BROADCAST: VARIADIC,
    Opcode.COLLECTIVE_PERMUTE: VARIADIC,
    Opcode.COLLECTIVE_PERMUTE_DONE: 1,
    Opcode.COLLECTIVE_PERMUTE_START: VARIADIC,
    Opcode.COLLECTIVE_REDUCE: VARIADIC,
    Opcode.COMPARE: 2,
    Opcode.COMPLEX: 2,
    Opcode.CONCATENATE: VARIADIC,
    Opcode.CONDITIONAL: VARIADIC,
    Opcode.CONSTANT: 0,
    Opcode.CONVERT: 1,
    Opcode.CONVOLUTION: 2,
    Opcode.COPY: 1,
    Opcode.COPY_DONE: 1,
    Opcode.COPY_START: 1,
    Opcode.COSH: 1,
    Opcode.COSINE: 1,
    Opcode.COUNT_LEADING_ZEROS: 1,
    Opcode.CUSTOM_CALL: VARIADIC,
    Opcode.DIVIDE: 2,
    Opcode.DOMAIN: 1,
    Opcode.DOT: 2,
    Opcode.DYNAMIC_RESHAPE: VARIADIC,
    Opcode.DYNAMIC_SLICE: VARIADIC,
    Opcode.DYNAMIC_UPDATE_SLICE: VARIADIC,
    Opcode.ERF: 1,
    Opcode.EXPONENTIAL: 1,
    Opcode.EXPONENTIAL_MINUS_ONE: 1,
    Opcode.FFT: 1,
    Opcode.FLOOR: 1,
    Opcode.FUSION: VARIADIC,
    Opcode.GATHER: 2,
    Opcode.GET_DIMENSION_SIZE: 1,
    Opcode.GET_TUPLE_ELEMENT: 1,
    Opcode.IMAG: 1,
    Opcode.INFEED: 1,
    Opcode.IOTA: 0,
    Opcode.IS_FINITE: 1,
    Opcode.LOG: 1,
    Opcode.LOG_PLUS_ONE: 1,
    Opcode.LOGISTIC: 1,
    Opcode.MAP: VARIADIC,
    Opcode.MAXIMUM: 2,
    Opcode.MINIMUM: 2,
    Opcode.MULHI: 2,
    Opcode.MULTIPLY: 2,
    Opcode.NEGATE: 1,
    Opcode.NOT: 1,
    Opcode.OPT_BARRIER: 1,
    Opcode.OR: 2,
    Opcode.OUTFEED: 2,
    Opcode.PAD: 2,
    Opcode.PARAMETER: 0,
    Opcode.PARTITION_ID: 0,
    Opcode.POPCNT: 1,
    Opcode.POWER: 2,
    Opcode.RAGGED_ALL_TO_ALL: 6,
    Opcode.RAGGED_DOT: 3,
    Opcode.REAL: 1,
    Opcode.RECV: 1,
    Opcode.RECV_DONE: 1,
    Opcode.REDUCE: VARIADIC,
    Opcode.REDUCE_PRECISION: 1,
    Opcode.REDUCE_SCATTER: VARIADIC,
    Opcode.REDUCE_WINDOW: VARIADIC,
    Opcode.REMAINDER: 2,
    Opcode.REPLICA_ID: 0,
    Opcode.RESHAPE: 1,
    Opcode.REVERSE: 1,
    Opcode.RNG: VARIADIC,
    Opcode.RNG_BIT_GENERATOR: 1,
    Opcode.RNG_GET_AND_UPDATE_STATE: 0,
    Opcode.ROUND_NEAREST_AFZ: 1,
    Opcode.ROUND_NEAREST_EVEN: 1,
    Opcode.RSQRT: 1,
    Opcode.SCALED_DOT: 4,
    Opcode.SCAN: VARIADIC,
    Opcode.SCATTER: VARIADIC,
    Opcode.SELECT: 3,
    Opcode.SELECT_AND_SCATTER: 3,
    Opcode.SEND: 2,
    Opcode.SEND_DONE: 1,
    Opcode.SET_DIMENSION_SIZE: 2,
    Opcode.SHIFT_LEFT: 2,
    Opcode.SHIFT_RIGHT_ARITHMETIC: 2,
    Opcode.SHIFT_RIGHT_LOGICAL: 2,
    Opcode.SHUFFLE: 1,
    Opcode.SIGN: 1,
    Opcode.SINE: 1,
    Opcode.SINH: 1,
    Opcode.SLICE: 1,
    Opcode.SORT: VARIADIC,
    Opcode.SQRT: 1,
    Opcode.STOCHASTIC_CONVERT: 2,
    Opcode.SUBTRACT: 2,
    Opcode.TAN: 1,
    Opcode.TANH: 1,
    Opcode.TOPK: 1,
    Opcode.TRANSPOSE: 1,
    Opcode.TRIANGULAR_SOLVE: 2,
    Opcode.TUPLE: VARIADIC,
    Opcode.WHILE: 1,
    Opcode.XOR: 2,
}
"""The total table opcode -> operand count; a test proves it total."""
