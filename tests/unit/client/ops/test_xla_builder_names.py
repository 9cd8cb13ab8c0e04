"""XlaBuilder's name of each operation, and the client's name for it."""

import pytest

import xla_client
from tests.elementwise_operations import OPERATIONS
from tests.elementwise_operations.operation import in_snake_case
from xla_client import Builder, ops

NOT_COMPILED = "XLA writes it for export to MLIR only; no backend of its compiles it"
PADDER = (
    "XLA writes a custom call that its pass for dynamic padding alone understands; convolutions of "
    "values with dynamic dimensions are plain ones here"
)
PARTITIONER = "a mark for the partitioner; programs run as one partition"

_SAME_NAMES = """
    AllGather AllReduce AllReduceTuple AllToAll AllToAllTuple BatchNormGrad BatchNormInference
    BatchNormTraining BitcastConvertType Broadcast BroadcastInDim Call Cholesky Clamp Collapse
    CollectiveBroadcast CollectivePermute Compare CompositeCall ConcatInDim Conditional Conj Conv
    ConvGeneral ConvGeneralDilated ConvWithGeneralDimensions ConvWithGeneralPadding
    ConvertElementType Copy CrossReplicaSum CustomCall Dot DotGeneral DynamicReshape DynamicSlice
    DynamicUpdateSlice Eq EqTotalOrder Fft Gather Ge GeTotalOrder GetDimensionSize GetTupleElement
    Gt GtTotalOrder InfeedWithToken Le LeTotalOrder Lt LtTotalOrder Map Ne NeTotalOrder
    OptimizationBarrier Outfeed OutfeedWithToken Pad PadInDim RaggedAllToAll RaggedDot
    RecvFromHost RecvWithToken Reduce ReduceAll ReducePrecision ReduceScatter ReduceWindow
    ReduceWindowWithGeneralPadding RemoveDynamicDimension Reshape Rev RngBitGenerator RngNormal
    RngUniform ScaledDot Scan Scatter Select SelectAndScatter SelectAndScatterWithGeneralPadding
    Send SendToHost SendWithToken SetDimensionSize Slice SliceInDim Sort StochasticConvertType
    TopK Transpose TriangularSolve Tuple
"""
FUNCTIONS = {
    **{name: in_snake_case(name) for name in _SAME_NAMES.split()},
    **{row.builder: row.function for row in OPERATIONS.values() if not row.math_h},
} | {
    "AfterAll": "Builder.after_all", "AllGatherTuple": "all_gather",
    "AllGatherTupleWithDeviceList": "all_gather", "AllGatherWithDeviceList": "all_gather",
    "AllReduceTupleWithDeviceList": "all_reduce_tuple", "AllReduceWithDeviceList": "all_reduce",
    "AllToAllTupleWithDeviceList": "all_to_all_tuple", "AllToAllWithDeviceList": "all_to_all",
    "CollectiveBroadcastWithDeviceList": "collective_broadcast",
    "ConstantFromArray": "Builder.constant", "ConstantFromArrayWithLayout": "Builder.constant",
    "ConstantLiteral": "Builder.constant", "ConstantR0": "Builder.constant",
    "ConstantR1": "Builder.constant", "ConstantR2": "Builder.constant",
    "ConstantR2FromArray2D": "Builder.constant",
    "ConstantR2FromArray2DWithLayout": "Builder.constant",
    "ConstantR3FromArray3D": "Builder.constant",
    "ConstantR3FromArray3DWithLayout": "Builder.constant",
    "ConstantR4FromArray4D": "Builder.constant",
    "ConstantR4FromArray4DWithLayout": "Builder.constant", "CreateToken": "Builder.create_token",
    "CustomCallWithComputation": "custom_call",
    "CustomCallWithComputationAndLayouts": "custom_call", "CustomCallWithLayout": "custom_call",
    "Infeed": "Builder.infeed", "Iota": "Builder.iota",
    "MultiCollectivePermute": "collective_permute", "Parameter": "Builder.parameter",
    "RaggedAllToAllWithDeviceList": "ragged_all_to_all", "Recv": "Builder.recv",
    "ReduceScatterWithDeviceList": "reduce_scatter",
    "ReplicaId": "Builder.replica_id", "ReshapeWithInferredDimension": "reshape",
    "While": "while_",
}  # fmt: skip
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

INTERNAL = {"calling", "innermost", "message_of", "operands_of", "own"}
"""Methods of Builder that the client's functions, loops and subscripts use, and no program."""

FROM_MATH_H = {row.function for row in OPERATIONS.values() if row.math_h}
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
    methods = {name for name in vars(Builder) if not name.startswith("_")} - INTERNAL
    assert methods - sources == {"build", "instruction", "partition_id", "program_shape"}
