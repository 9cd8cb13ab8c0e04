from typing import Any

import ml_dtypes
import numpy as np

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from tests.corpus.root_text import run_text
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


def test_large_integers_wrap_exactly() -> None:
    text = program(
        ["s32[1,2]", "s32[2,1]"],
        "s32[1,1] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    lhs = np.array([[2**31 - 1, 3]], np.int32)
    rhs = np.array([[2**31 - 1], [5]], np.int32)
    assert evaluate(import_module(parse_hlo(text)), [lhs, rhs]) == [[16]]


def test_sums_of_floats_saturate_as_integers() -> None:
    root = "u8[3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lhs = np.array([[300, 0], [-2, 1], [-2, -3]], np.float32)
    rhs = np.array([1, -1], np.float32)
    found: Any = run_text(["f32[3,2]", "f32[2]"], root, [lhs, rhs])
    assert found.tolist() == [255, 0, 1]


def test_bf16_is_rounded_once() -> None:
    text = program(
        ["bf16[300]", "bf16[300]"],
        "bf16[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    ones = np.ones(300, ml_dtypes.bfloat16)
    # Added up in bf16 the sum would stop at 256.
    assert float(evaluate(import_module(parse_hlo(text)), [ones, ones])) == 300  # type: ignore[arg-type]
