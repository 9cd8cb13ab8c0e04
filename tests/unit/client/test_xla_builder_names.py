"""XlaBuilder's name of each operation, and the client's name for it."""

import pytest

import xla_client
from xla_client import Builder, ops

NOT_COMPILED = "XLA writes it for export to MLIR only; no backend of its compiles it"
PADDER = (
    "XLA writes a custom call that its pass for dynamic padding alone understands; convolutions of "
    "values with dynamic dimensions are plain ones here"
)
PARTITIONER = "a mark for the partitioner; programs run as one partition"

FUNCTIONS = {
    "Abs": "abs",
    "Add": "add",
    "AfterAll": "Builder.after_all",
    "AllGather": "all_gather",
    "AllGatherTuple": "all_gather",
    "AllGatherTupleWithDeviceList": "all_gather",
    "AllGatherWithDeviceList": "all_gather",
    "AllReduce": "all_reduce",
    "AllReduceTuple": "all_reduce_tuple",
    "AllReduceTupleWithDeviceList": "all_reduce_tuple",
    "AllReduceWithDeviceList": "all_reduce",
    "AllToAll": "all_to_all",
    "AllToAllTuple": "all_to_all_tuple",
    "AllToAllTupleWithDeviceList": "all_to_all_tuple",
    "AllToAllWithDeviceList": "all_to_all",
    "And": "and_",
    "Atan2": "atan2",
    "BatchNormGrad": "batch_norm_grad",
    "BatchNormInference": "batch_norm_inference",
    "BatchNormTraining": "batch_norm_training",
    "BitcastConvertType": "bitcast_convert_type",
    "Broadcast": "broadcast",
    "BroadcastInDim": "broadcast_in_dim",
    "Call": "call",
    "Cbrt": "cbrt",
    "Ceil": "ceil",
    "Cholesky": "cholesky",
    "Clamp": "clamp",
    "Clz": "clz",
    "Collapse": "collapse",
    "CollectiveBroadcast": "collective_broadcast",
    "CollectiveBroadcastWithDeviceList": "collective_broadcast",
    "CollectivePermute": "collective_permute",
    "Compare": "compare",
    "Complex": "complex",
    "CompositeCall": "composite_call",
    "ConcatInDim": "concat_in_dim",
    "Conditional": "conditional",
    "Conj": "conj",
    "ConstantFromArray": "Builder.constant",
    "ConstantFromArrayWithLayout": "Builder.constant",
    "ConstantLiteral": "Builder.constant",
    "ConstantR0": "Builder.constant",
    "ConstantR1": "Builder.constant",
    "ConstantR2": "Builder.constant",
    "ConstantR2FromArray2D": "Builder.constant",
    "ConstantR2FromArray2DWithLayout": "Builder.constant",
    "ConstantR3FromArray3D": "Builder.constant",
    "ConstantR3FromArray3DWithLayout": "Builder.constant",
    "ConstantR4FromArray4D": "Builder.constant",
    "ConstantR4FromArray4DWithLayout": "Builder.constant",
    "Conv": "conv",
    "ConvGeneral": "conv_general",
    "ConvGeneralDilated": "conv_general_dilated",
    "ConvWithGeneralDimensions": "conv_with_general_dimensions",
    "ConvWithGeneralPadding": "conv_with_general_padding",
    "ConvertElementType": "convert_element_type",
    "Copy": "copy",
    "Cos": "cos",
    "CreateToken": "Builder.create_token",
    "CrossReplicaSum": "cross_replica_sum",
    "CustomCall": "custom_call",
    "CustomCallWithComputation": "custom_call",
    "CustomCallWithComputationAndLayouts": "custom_call",
    "CustomCallWithLayout": "custom_call",
    "Div": "div",
    "Dot": "dot",
    "DotGeneral": "dot_general",
    "DynamicReshape": "dynamic_reshape",
    "DynamicSlice": "dynamic_slice",
    "DynamicUpdateSlice": "dynamic_update_slice",
    "Eq": "eq",
    "EqTotalOrder": "eq_total_order",
    "Erf": "erf",
    "Exp": "exp",
    "Expm1": "expm1",
    "Fft": "fft",
    "Floor": "floor",
    "Gather": "gather",
    "Ge": "ge",
    "GeTotalOrder": "ge_total_order",
    "GetDimensionSize": "get_dimension_size",
    "GetTupleElement": "get_tuple_element",
    "Gt": "gt",
    "GtTotalOrder": "gt_total_order",
    "Imag": "imag",
    "Infeed": "Builder.infeed",
    "InfeedWithToken": "infeed_with_token",
    "Iota": "Builder.iota",
    "IsFinite": "is_finite",
    "Le": "le",
    "LeTotalOrder": "le_total_order",
    "Log": "log",
    "Log1p": "log1p",
    "Logistic": "logistic",
    "Lt": "lt",
    "LtTotalOrder": "lt_total_order",
    "Map": "map",
    "Max": "max",
    "Min": "min",
    "Mul": "mul",
    "Mulhi": "mulhi",
    "MultiCollectivePermute": "collective_permute",
    "Ne": "ne",
    "NeTotalOrder": "ne_total_order",
    "Neg": "neg",
    "Not": "not_",
    "OptimizationBarrier": "optimization_barrier",
    "Or": "or_",
    "Outfeed": "outfeed",
    "OutfeedWithToken": "outfeed_with_token",
    "Pad": "pad",
    "PadInDim": "pad_in_dim",
    "Parameter": "Builder.parameter",
    "PopulationCount": "population_count",
    "Pow": "pow",
    "RaggedAllToAll": "ragged_all_to_all",
    "RaggedAllToAllWithDeviceList": "ragged_all_to_all",
    "RaggedDot": "ragged_dot",
    "Real": "real",
    "Recv": "Builder.recv",
    "RecvFromHost": "recv_from_host",
    "RecvWithToken": "recv_with_token",
    "Reduce": "reduce",
    "ReduceAll": "reduce_all",
    "ReducePrecision": "reduce_precision",
    "ReduceScatter": "reduce_scatter",
    "ReduceScatterWithDeviceList": "reduce_scatter",
    "ReduceWindow": "reduce_window",
    "ReduceWindowWithGeneralPadding": "reduce_window_with_general_padding",
    "Rem": "rem",
    "RemoveDynamicDimension": "remove_dynamic_dimension",
    "ReplicaId": "Builder.replica_id",
    "Reshape": "reshape",
    "ReshapeWithInferredDimension": "reshape",
    "Rev": "rev",
    "RngBitGenerator": "rng_bit_generator",
    "RngNormal": "rng_normal",
    "RngUniform": "rng_uniform",
    "Round": "round",
    "RoundNearestEven": "round_nearest_even",
    "Rsqrt": "rsqrt",
    "ScaledDot": "scaled_dot",
    "Scan": "scan",
    "Scatter": "scatter",
    "Select": "select",
    "SelectAndScatter": "select_and_scatter",
    "SelectAndScatterWithGeneralPadding": "select_and_scatter_with_general_padding",
    "Send": "send",
    "SendToHost": "send_to_host",
    "SendWithToken": "send_with_token",
    "SetDimensionSize": "set_dimension_size",
    "ShiftLeft": "shift_left",
    "ShiftRightArithmetic": "shift_right_arithmetic",
    "ShiftRightLogical": "shift_right_logical",
    "Sign": "sign",
    "Sin": "sin",
    "Slice": "slice",
    "SliceInDim": "slice_in_dim",
    "Sort": "sort",
    "Sqrt": "sqrt",
    "StochasticConvertType": "stochastic_convert_type",
    "Sub": "sub",
    "Tan": "tan",
    "Tanh": "tanh",
    "TopK": "top_k",
    "Transpose": "transpose",
    "TriangularSolve": "triangular_solve",
    "Tuple": "tuple",
    "While": "while_",
    "Xor": "xor",
}
"""The operations of xla_builder.h with a function of `ops` or a method of Builder for each.

One function may stand for several: for an operand or a sequence of them, for replica groups in
any form, for values that C++ has to tell apart by type.
"""

WITHOUT_FUNCTION = {
    "ConvertSpmdFullToShardShape": PARTITIONER,
    "ConvertSpmdShardToFullShape": PARTITIONER,
    "CustomCallWithConvDnums": "convolution dimensions for the libraries of GPUs",
    "DynamicConvForward": PADDER,
    "DynamicConvInputGrad": PADDER,
    "DynamicConvKernelGrad": PADDER,
    "MhloDynamicBroadcastInDim": NOT_COMPILED,
    "MhloDynamicReshape": NOT_COMPILED,
}

LOOKED_FOR = {
    "batch_dot": "BatchDot of hlo/builder/lib/matrix.h: what `@` is for batches",
    "floor_div": "what `//` is; XLA has div, which truncates",
    "floor_mod": "what `%` is; XLA has rem, which has the sign of the dividend",
    "infeed": "Builder.infeed, beside outfeed",
    "matmul": "what `@` is; XLA has dot and dot_general",
    "recv": "Builder.recv, beside send",
    "roll": "numpy's; XLA writes it with slices",
}
"""Functions under names that people look for, with what they are in XLA."""

FROM_MATH_H = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"}
"""Functions that XLA has in hlo/builder/lib/math.h."""


def _found(name: str) -> object:
    owner, _, method = name.rpartition(".")
    return getattr(getattr(xla_client, owner) if owner else ops, method, None)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_an_operation_of_xla_builder_has_a_function(name):
    assert callable(_found(FUNCTIONS[name]))


def test_the_rest_has_a_reason():
    assert not set(FUNCTIONS) & set(WITHOUT_FUNCTION)
    assert all(len(reason.split()) > 4 for reason in WITHOUT_FUNCTION.values())


def test_every_function_is_an_operation_of_xla_s():
    own = {name for name in FUNCTIONS.values() if "." not in name}
    assert own | FROM_MATH_H | set(LOOKED_FOR) == set(ops.__all__)
    assert not own & set(LOOKED_FOR)
    sources = {name.removeprefix("Builder.") for name in FUNCTIONS.values() if "." in name}
    # PartitionId is XlaBuilder's too, for its friends.
    methods = {name for name in vars(Builder) if not name.startswith("_")}
    assert methods - sources == {"build", "instruction", "partition_id", "program_shape"}
