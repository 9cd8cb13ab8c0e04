"""Programs that depend on nothing, and those that only say so."""

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from xla_client import Builder, Computation, Op, Shape, ops
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
)
from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.buffers.assignment import MemoryUse
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_program
from xla_server.sessions.programs.constant_evaluation import compute_constant

MATRIX = np.float32([[1, 2, 3], [4, 5, 6]])
CHANNEL = 5


def computed(
    what: Computation | hlo_pb2.HloModuleProto, layout: Layout | None = None, max_bytes: int = 1000
) -> Literal:
    proto = what.proto if isinstance(what, Computation) else what
    return compute_constant(
        read_program(proto), layout, max_bytes=max_bytes, cancellation=Cancellation()
    )


def matrix() -> Computation:
    builder = Builder("matrix")
    half = builder.constant(MATRIX / 2)
    return builder.build(half + half)


def test_the_value_is_row_major_or_in_the_layout_asked_for() -> None:
    for layout, memory in ((None, [1, 2, 3, 4, 5, 6]), (Layout((0, 1)), [1, 4, 2, 5, 3, 6])):
        value = computed(matrix(), layout)
        np.testing.assert_array_equal(value.to_numpy(), MATRIX)
        assert value.linear_memory().tolist() == memory
        assert value.shape.layout == (layout or Layout((1, 0)))


def test_tuples_and_tokens_are_values_too() -> None:
    builder = Builder("nested")
    one = builder.constant(np.int32(1))
    nested = ops.tuple([builder.create_token(), one + one])
    value = computed(builder.build(ops.tuple([one, nested])))
    assert value.to_numpy() == (1, (None, 2))
    with pytest.raises(InvalidArgumentError, match=r"output_layout must fit the result"):
        computed(builder.build(ops.tuple([one])), Layout((0,)))


def test_a_layout_must_fit_the_result() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"output_layout must fit the result, got .*0.* for f32\[2,3\]"
    ):
        computed(matrix(), Layout((0,)))


def test_a_constant_has_no_parameters() -> None:
    builder = Builder("given")
    builder.parameter(0, Shape.parse("f32[2]"))
    builder.constant(np.float32(1))
    proto = builder.build().proto
    with pytest.raises(
        InvalidArgumentError, match=r"no parameters, got 1: \(.*f32\[2\].*\) -> f32\[\]"
    ):
        computed(proto)
    # A signature that keeps them quiet is not believed.
    proto.host_program_shape.ClearField("parameters")
    proto.host_program_shape.ClearField("parameter_names")
    with pytest.raises(InvalidArgumentError, match=r"no parameters, got 1 in .*given"):
        computed(proto)


F32 = Shape.parse("f32[2]")
RANDOM_STATE = Opcode.RNG_GET_AND_UPDATE_STATE
STATE = RngGetAndUpdateStateAttributes(3)


@pytest.mark.parametrize(
    ("make", "opcode"),
    [
        (lambda b, t: ops.infeed_with_token(t, F32), "infeed"),
        (lambda b, t: ops.outfeed_with_token(b.constant(MATRIX), t), "outfeed"),
        (lambda b, t: ops.send_with_token(b.constant(MATRIX), t, CHANNEL), "send"),
        (lambda b, t: ops.recv_with_token(t, F32, CHANNEL), "recv"),
        (lambda b, t: ops.rng_uniform(*[b.constant(np.float32(0))] * 2, F32), "rng"),
        (lambda b, t: b.replica_id(), "replica-id"),
        (lambda b, t: b.partition_id(), "partition-id"),
        (lambda b, t: b.instruction(RANDOM_STATE, [], STATE), "rng-get-and-update-state"),
    ],
)
def test_what_is_another_value_each_time_is_no_constant(make, opcode: str) -> None:
    builder = Builder("variable")
    made: Op = make(builder, builder.create_token())
    rule = f"^{opcode} %.*: a constant must not depend on anything, got {opcode}$"
    with pytest.raises(InvalidArgumentError, match=rule) as caught:
        computed(builder.build(made))
    assert caught.value.op == opcode


def test_it_is_found_in_what_is_called_too() -> None:
    inner = Builder("inner")
    called = inner.build(inner.replica_id())
    builder = Builder("outer")
    with pytest.raises(InvalidArgumentError, match=r"^replica-id %.*must not depend on anything"):
        computed(builder.build(ops.call(called, [], builder)))


def test_custom_calls_are_not_evaluated() -> None:
    builder = Builder("custom")
    call = ops.custom_call([builder.constant(MATRIX)], "mine", Shape.parse("f32[2]"))
    with pytest.raises(UnimplementedError, match=r"^custom-call %.*, got target 'mine'$"):
        computed(builder.build(call))


def test_values_have_a_limit() -> None:
    assert computed(matrix(), max_bytes=24).shape.byte_size == 24
    with pytest.raises(ResourceExhaustedError, match="23 bytes"):
        computed(matrix(), max_bytes=23)
    # Inside of the program too, before it is made.
    builder = Builder("large")
    large = ops.broadcast(builder.constant(np.float32(0)), [1 << 40])
    with pytest.raises(ResourceExhaustedError, match=r"1000 bytes.*4398046511104"):
        computed(builder.build(ops.slice(large, [0], [1], [1])))
    # The padding that a layout asks for counts.
    with pytest.raises(
        ResourceExhaustedError, match=r"a value may take 1000 bytes, got 8796093022208 for the"
    ):
        computed(matrix(), Layout((1, 0), (2, 1 << 40)))


def test_a_caller_may_give_up() -> None:
    cancellation = Cancellation()
    cancellation.cancel(CancelledError("the caller has gone"))
    with pytest.raises(CancelledError, match="the caller has gone"):
        compute_constant(
            read_program(matrix().proto), None, max_bytes=1000, cancellation=cancellation
        )


def test_a_program_that_breaks_a_rule_is_refused() -> None:
    proto = matrix().proto
    proto.computations[0].instructions[-1].shape.dimensions[0] = 7
    with pytest.raises(InvalidArgumentError, match=r"^add %.*f32\[7,3\]"):
        computed(proto)


def test_memory_is_reserved_for_all_values_at_once() -> None:
    builder = Builder("wide")
    wide = ops.broadcast(builder.constant(np.float32(1)), [100])
    program = builder.build(ops.slice((wide + wide) * (wide - wide), [0], [1]))

    @contextlib.contextmanager
    def refuse(use: MemoryUse) -> Iterator[None]:
        raise ResourceExhaustedError(str(use))
        yield

    with pytest.raises(
        ResourceExhaustedError, match=r"1200 bytes .* 1196 of temporary .* 4 of res"
    ):
        compute_constant(
            read_program(program.proto),
            None,
            max_bytes=1000,
            cancellation=Cancellation(),
            reserve=refuse,
        )
