"""Functions of collectives that write more than one instruction."""

import numpy as np
import pytest

from tests.corpus.hlo_text import print_hlo
from xla_client import Builder, Shape, ops
from xla_contract.errors import ShapeError
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


def _parameters(*texts: str):
    builder = Builder("program")
    return builder, [builder.parameter(n, Shape.parse(text)) for n, text in enumerate(texts)]


def test_all_to_all_joins_along_another_dimension():
    builder, (x,) = _parameters("f32[6,4,5]")
    assert str(ops.all_to_all(x, 0, 2, 3, [[0, 1, 2]]).shape) == "f32[2,4,15]"
    assert str(ops.all_to_all(x, 1, 0, 2, [[0, 1]]).shape) == "f32[12,2,5]"
    text = print_hlo(builder.build().proto)
    assert "all-to-all(p0.1), replica_groups={{0,1,2}}, dimensions={0}" in text


def test_all_to_all_alone_is_the_operand():
    builder, (x,) = _parameters("f32[2,3]")
    module = import_module(builder.build(ops.all_to_all(x, 0, 1, 1)).proto)
    verify(module)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(evaluate(module, [value]), value)


def test_the_sum_over_replicas():
    builder, (numbers, flags) = _parameters("(s32[2], s32[])", "pred[3]")
    total, any_true = ops.cross_replica_sum(numbers), ops.cross_replica_sum(flags, [[0]])
    module = import_module(builder.build(ops.tuple([total, any_true])).proto)
    verify(module)
    roots = [computation.root.opcode for computation in module.computations[:-1]]
    assert sorted(roots) == ["add", "or"]
    pair = (np.array([1, 2], np.int32), np.array(3, np.int32))
    given, flags_back = evaluate(module, [pair, np.array([True, False, True])])
    np.testing.assert_array_equal(given[0], pair[0])
    np.testing.assert_array_equal(flags_back, [True, False, True])


def test_a_tuple_of_one_stays_a_tuple():
    _, (x,) = _parameters("f32[2]")
    terms, (a, b) = _parameters("f32[]", "f32[]")
    result = ops.all_reduce_tuple([x], terms.build(a + b))
    assert str(result.shape) == "(f32[2])"
    assert str(ops.all_reduce(result, terms.build(a + b)).shape) == "(f32[2])"


def test_several_operands():
    _, (x, y) = _parameters("f32[2]", "s8[4]")
    assert str(ops.all_gather([x, y], 0, 2).shape) == "(f32[4], s8[8])"
    assert str(ops.collective_permute([x, y], [(0, 1)]).shape) == "(f32[2], s8[4])"


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda x: ops.all_gather(x, 2, 4), r"^all-gather .*range \[0, 2\), got 2"),
        (lambda x: ops.all_gather(x, 0, 4, [[0, 1]]), "^all-gather .*group's size 2, got 16"),
        (lambda x: ops.all_to_all(x, 1, 1, 2, [[0, 1]]), "^all-to-all .*divisible by the group"),
        (lambda x: ops.all_to_all(x, 0, 2, 2), "^all-to-all: the concat dimension .* got 2"),
        (lambda x: ops.all_to_all(x, 0, 0, 3), "^all-to-all: .*split count 3"),
        (lambda x: ops.collective_permute(x, [(0, 1), (2, 1)]), "^collective-permute .*distinct"),
        (lambda x: ops.collective_broadcast(x, [[0], [0]]), "^collective-broadcast .*most once"),
    ],
)
def test_broken_rules_are_named_at_the_call(apply, message):
    _, (x,) = _parameters("f32[4,3]")
    with pytest.raises(ShapeError, match=message):
        apply(x)
