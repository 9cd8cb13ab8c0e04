"""Computations taken into modules that call them: names, ids, and that they mean the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_client import Builder, Computation, Shape, ops
from xla_client.programs.module_embedding import Embedding, Names
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify
from xla_server.rpc.decode.programs import read_program
from xla_server.sessions.programs.constant_evaluation import compute_constant

SCALAR = Shape.parse("s32[]")


def plus(number: int, name: str = "plus") -> Computation:
    builder = Builder(name)
    return builder.build(builder.parameter(0, SCALAR) + number)


def value(computation: Computation) -> int:
    literal = compute_constant(
        read_program(computation.proto), None, max_bytes=1 << 20, cancellation=Cancellation()
    )
    return int(literal.value)


# Names --------------------------------------------------------------------------------------


def test_a_fresh_name_has_its_number_or_the_next() -> None:
    names = Names()
    assert [names.fresh("add", number) for number in (1, 1, 3, 1)] == [
        "add.1",
        "add.2",
        "add.3",
        "add.4",
    ]
    assert names.fresh("mul", 1) == "mul.1"


def test_a_name_is_kept_where_it_is_free() -> None:
    names = Names()
    assert [names.keep(name) for name in ("x", "add.7", "add.7", "x", "", "a.b", "a.b")] == [
        "x",
        "add.7",
        "add.1",
        "x.1",
        ".1",
        "a.b",
        "a.b.1",
    ]


def test_a_name_that_was_not_used_is_free_again() -> None:
    names = Names()
    name = names.fresh("add", 1)
    names.release(name)
    assert names.keep(name) == name
    names.release("never taken")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["", "a", "a.1", "a.2", "b.x", ".1", "a.1.1"])),
        max_size=12,
    ),
    st.integers(1, 3),
)
def test_no_name_is_given_twice(requested: list[tuple[bool, str]], number: int) -> None:
    names = Names()
    given_ = [names.keep(name) if kept else names.fresh(name, number) for kept, name in requested]
    assert len(set(given_)) == len(given_)


# Embedding ----------------------------------------------------------------------------------


def test_a_computation_is_embedded_once() -> None:
    embedding = Embedding(Names(), first_id=10)
    one, other = plus(1), plus(1)
    ids = [embedding.add(each) for each in (one, other, one)]
    # Another object is another computation, though it says the same.
    assert ids == [10, 11, 10]
    module = hlo_pb2.HloModuleProto()
    embedding.write(module, reserved_name="plus")
    assert [(each.id, each.name) for each in module.computations] == [
        (10, "plus.1"),
        (11, "plus.2"),
    ]


def test_the_computation_given_stays_as_it_is() -> None:
    given_ = plus(1)
    before = given_.proto
    Embedding(Names(), first_id=10).add(given_)
    assert given_.proto == before


@st.composite
def calls(draw: st.DrawFn, depth: int = 2) -> tuple[Computation, int]:
    """A computation that calls others, some of them twice and all of one name; and what it adds."""
    builder = Builder("f")
    number = draw(st.integers(-5, 5))
    total, result = number, builder.parameter(0, SCALAR) + number
    if depth:
        for called, adds in draw(st.lists(calls(depth=depth - 1), max_size=2)):
            for _ in range(draw(st.integers(1, 2))):
                result = ops.call(called, [result])
                total += adds
    return builder.build(result), total


@settings(max_examples=12, deadline=None)
@given(calls())
def test_what_is_embedded_is_a_module_and_means_the_same(made: tuple[Computation, int]) -> None:
    called, total = made
    builder = Builder("f")
    main = builder.build(ops.call(called, [builder.constant(np.int32(100))]))
    module = import_module(main.proto)
    verify(module)
    assert value(main) == 100 + total
    ids = [instruction.id for part in main.proto.computations for instruction in part.instructions]
    assert len(set(ids)) == len(ids)


def test_a_caller_before_what_it_calls_is_refused_and_leaves_nothing() -> None:
    inner = Builder("outer")
    proto = inner.build(ops.call(plus(1), [inner.parameter(0, SCALAR)])).proto
    parts = list(proto.computations)
    third = hlo_pb2.HloComputationProto()
    third.CopyFrom(parts[0])
    third.id, third.name = 99, "first"
    del proto.computations[:]
    proto.computations.extend([third, parts[1], parts[0]])
    builder = Builder("main")
    x = builder.parameter(0, SCALAR)
    with pytest.raises(
        InvalidArgumentError, match=rf"listed before their callers, got \[{parts[0].id}\] at call %"
    ):
        ops.call(Computation(proto), [x])
    assert len(builder.build(x + 1).proto.computations) == 1
