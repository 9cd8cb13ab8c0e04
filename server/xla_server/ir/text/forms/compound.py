"""HLO text of operations that contract, reduce, move by index or draw random numbers."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.ops.random.rng import RandomDistribution
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    Window,
)
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.text import attribute_kinds as kinds
from xla_server.ir.text.forms.form import REQUIRED, Attribute, Nested, Row, fields

_ALGORITHMS = {
    number: name.removeprefix("ALG_").lower()
    for name, number in xla_data_pb2.PrecisionConfig.Algorithm.items()
}
_PRECISION = (
    # An attribute that is absent from the text is the default of both operands.
    Attribute("operand_precision", kinds.PRECISIONS, (0, 0)),
    Attribute("algorithm", kinds.words(_ALGORITHMS, any_case=True), 0),
)
_CONTRACTION = Nested(
    DotDimensionNumbers,
    (
        Attribute("lhs_contracting_dims", kinds.INTEGERS, ()),
        Attribute("rhs_contracting_dims", kinds.INTEGERS, ()),
        Attribute("lhs_batch_dims", kinds.INTEGERS, ()),
        Attribute("rhs_batch_dims", kinds.INTEGERS, ()),
    ),
)


def _by_index(record: type[Any]) -> Nested:
    """Return attributes of dimension numbers, named as the fields; batching ones are optional."""
    attributes = (
        Attribute(
            field.name,
            kinds.INTEGER if field.type is int else kinds.INTEGERS,
            () if "batching" in field.name else REQUIRED,
        )
        for field in dataclasses.fields(record)
    )
    return Nested(record, tuple(attributes))


_BATCH_NORM = fields(
    Attribute("epsilon", kinds.FLOAT),
    Attribute("feature_index", kinds.INTEGER),
)
_DOT = fields(_CONTRACTION, *_PRECISION)


def _all_dimensions(operands: Sequence[Shape]) -> tuple[int, ...]:
    return tuple(range(operands[0].rank)) if operands else ()


COMPOUND: dict[Opcode, Row] = {
    Opcode.BATCH_NORM_GRAD: _BATCH_NORM,
    Opcode.BATCH_NORM_INFERENCE: _BATCH_NORM,
    Opcode.BATCH_NORM_TRAINING: _BATCH_NORM,
    Opcode.CHOLESKY: fields(Attribute("lower", kinds.BOOL, False)),
    Opcode.CONVOLUTION: fields(
        Attribute("window", kinds.WINDOW, Window()),
        Attribute("dim_labels", kinds.DIM_LABELS),
        Attribute("feature_group_count", kinds.INTEGER, 1),
        Attribute("batch_group_count", kinds.INTEGER, 1),
        *_PRECISION,
    ),
    Opcode.DOT: _DOT,
    Opcode.SCALED_DOT: _DOT,
    Opcode.FFT: fields(
        Attribute("fft_type", kinds.members(FftType)),
        Attribute("fft_length", kinds.INTEGERS),
    ),
    Opcode.GATHER: fields(
        _by_index(GatherDimensionNumbers),
        Attribute("slice_sizes", kinds.INTEGERS),
        Attribute("indices_are_sorted", kinds.BOOL, False),
    ),
    Opcode.MAP: fields(
        Attribute("dimensions", kinds.INTEGERS, (), always=True, of_operands=_all_dimensions),
        calls=("to_apply",),
        # Whatever they say, all dimensions are mapped.
        ignored=("dimensions",),
    ),
    Opcode.RAGGED_DOT: fields(
        _CONTRACTION,
        Attribute("lhs_ragged_dims", kinds.SINGLE),
        Attribute("rhs_group_dims", kinds.SINGLE, None),
        *_PRECISION,
    ),
    Opcode.REDUCE: fields(Attribute("dimensions", kinds.INTEGERS), calls=("to_apply",)),
    Opcode.REDUCE_WINDOW: fields(Attribute("window", kinds.WINDOW, Window()), calls=("to_apply",)),
    Opcode.RNG: fields(
        Attribute(
            "distribution",
            kinds.words({kind: f"rng_{kind.name.lower()}" for kind in RandomDistribution}),
        ),
    ),
    Opcode.RNG_BIT_GENERATOR: fields(
        Attribute(
            "algorithm", kinds.words({kind: f"rng_{kind.name.lower()}" for kind in RandomAlgorithm})
        ),
    ),
    Opcode.RNG_GET_AND_UPDATE_STATE: fields(Attribute("delta", kinds.INTEGER)),
    Opcode.SCAN: fields(
        Attribute("dimensions", kinds.SINGLE),
        Attribute("num_carries", kinds.INTEGER),
        Attribute("is_reverse", kinds.BOOL, False),
        Attribute("is_associative", kinds.BOOL, None),
        calls=("to_apply",),
    ),
    Opcode.SCATTER: fields(
        _by_index(ScatterDimensionNumbers),
        Attribute("indices_are_sorted", kinds.BOOL, False),
        Attribute("unique_indices", kinds.BOOL, False),
        calls=("to_apply",),
    ),
    Opcode.SELECT_AND_SCATTER: fields(
        Attribute("window", kinds.WINDOW, Window()),
        calls=("select", "scatter"),
    ),
    Opcode.SORT: fields(
        Attribute("dimensions", kinds.SINGLE),
        Attribute("is_stable", kinds.BOOL, False),
        calls=("to_apply",),
    ),
    Opcode.TOPK: fields(
        Attribute("k", kinds.INTEGER),
        Attribute("largest", kinds.BOOL, True, always=True),
    ),
    Opcode.TRIANGULAR_SOLVE: fields(
        Attribute("left_side", kinds.BOOL, False),
        Attribute("lower", kinds.BOOL, False),
        Attribute("unit_diagonal", kinds.BOOL, False),
        Attribute("transpose_a", kinds.members(Transpose), Transpose.NO_TRANSPOSE, always=True),
    ),
}
