import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    MATRIX,
    ONES,
    PAIR,
    argument,
    argument_of,
    compiled,
    execute,
    keep,
    kept,
    open_service,
    result_of,
    run_request,
    step,
    value,
)
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.runs import read_run
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.runs.planner import MAX_STEPS, plan_run
from xla_server.sessions.runs.run import StepOutcome
from xla_server.sessions.session import Session


@pytest.fixture
def service() -> Iterator[Session]:
    quotas = Quotas(device_bytes=1000, handles=20)
    with open_service(1000, quotas, max_message_bytes=100) as made:
        yield made


def fetched(outcome: StepOutcome) -> object:
    assert outcome.value is not None
    return outcome.value.to_numpy()


def test_results_are_arguments_of_later_steps(service: Session) -> None:
    double, add = compiled(service, DOUBLE), compiled(service, ADD)
    outcomes = execute(
        service,
        step(double, value(ONES)),
        step(double, result_of(0)),
        step(add, result_of(0), result_of(1), fetch=16),
    )
    np.testing.assert_array_equal(fetched(outcomes[2]), 6 * ONES)
    assert [outcome.value is None for outcome in outcomes] == [True, True, False]
    assert service.data.used_bytes == service.data.reserved_bytes == 0


def test_what_is_larger_than_asked_for_is_kept_instead(service: Session) -> None:
    double = compiled(service, DOUBLE)
    (outcome,) = execute(service, step(double, value(ONES), fetch=15))
    assert outcome.value is None
    assert len(outcome.kept) == 1


@pytest.mark.parametrize("flatten", [False, True])
def test_a_tuple_is_kept_whole_or_as_its_elements(service: Session, flatten: bool) -> None:
    pair = compiled(service, PAIR)
    (outcome,) = execute(service, step(pair, value(ONES), output=keep(flatten)))
    assert [one.shape.is_tuple for one in outcome.kept] == ([False, False] if flatten else [True])


def test_an_element_of_a_tuple_is_an_argument(service: Session) -> None:
    pair, double = compiled(service, PAIR), compiled(service, DOUBLE)
    outcomes = execute(service, step(pair, value(ONES)), step(double, result_of(0, 1), fetch=16))
    np.testing.assert_array_equal(fetched(outcomes[1]), 4 * ONES)


def test_results_are_sent_back_in_the_layout_asked_for(service: Session) -> None:
    matrix = compiled(service, MATRIX)
    layout = extension_pb2.RunOutput(
        fetch_bytes=100, shape_with_layout=shape_to_proto(Shape.parse("f32[2,2]{0,1}"))
    )
    (outcome,) = execute(service, step(matrix, value(np.float32([[1, 2], [3, 4]])), output=layout))
    assert outcome.value is not None
    np.testing.assert_array_equal(outcome.value.linear_memory(), np.float32([2, 6, 4, 8]))


def test_the_layout_of_a_value_sent_along_is_only_how_it_was_sent(service: Session) -> None:
    matrix = compiled(service, MATRIX)
    array = np.float32([[1, 2], [3, 4]])
    columns = Literal.from_numpy(array, Shape.parse("f32[2,2]{0,1}"))
    sent = extension_pb2.RunArgument(value=value_to_proto(columns))
    (outcome,) = execute(service, step(matrix, sent, fetch=16))
    np.testing.assert_array_equal(fetched(outcome), 2 * array)


def test_padding_that_a_client_asks_for_counts_as_sent_back(service: Session) -> None:
    double = compiled(service, DOUBLE)
    for width, fetch in ((5, 19), (2**40, 100)):
        padded = shape_to_proto(Shape.parse("f32[4]{0}").with_layout(Layout((0,), (width,))))
        output = extension_pb2.RunOutput(fetch_bytes=fetch, shape_with_layout=padded)
        (outcome,) = execute(service, step(double, value(ONES), output=output))
        assert outcome.value is None
        assert len(outcome.kept) == 1
    output.fetch_bytes = 2**50
    _bad(
        service,
        step(double, value(ONES), output=output),
        error=ResourceExhaustedError,
        match=f"may take 100 bytes, got results of {2**42}",
    )


def _bad(
    service: Session, *steps: extension_pb2.RunStep, error: type[XlaError], match: str
) -> None:
    before = service.data.used_bytes, len(service.data)
    with pytest.raises(error, match=match):
        execute(service, *steps)
    assert (service.data.used_bytes, len(service.data)) == before
    assert service.data.reserved_bytes == 0


def test_all_is_checked_before_anything_runs(service: Session) -> None:
    double, pair = compiled(service, DOUBLE), compiled(service, "pair")
    held = kept(service, ONES)
    good = step(double, value(ONES), output=keep())

    def refused(match: str, *steps: extension_pb2.RunStep) -> None:
        _bad(service, *steps, error=InvalidArgumentError, match=match)

    refused("between 1 and 1024 steps, got 0")
    refused("between 1 and 1024 steps, got 1025", *[good] * (MAX_STEPS + 1))
    refused("step 1: .*executable", good, extension_pb2.RunStep())
    refused("step 1: .*one argument per parameter, got 0 for 1", good, step(double))
    refused("step 1: argument 0: .*source, got none", good, step(double, argument()))
    refused(r"step 1: argument 0: .*f32\[2\]", good, step(double, value(ONES[:2])))
    refused("step 1: argument 0: .*before it, got step 1 with 1", good, step(double, result_of(1)))
    refused("step 1: argument 0: .*got step -1", good, step(double, result_of(-1)))
    refused(r"argument 0: .*got \[2\]", step(pair, value(ONES)), step(double, result_of(0, 2)))
    refused("argument 0: it must have", step(pair, value(ONES)), step(double, result_of(0)))
    refused("fetch_bytes must not be negative, got -1", step(double, value(ONES), fetch=-1))
    row = extension_pb2.RunOutput(shape_with_layout=shape_to_proto(Shape.parse("f32[4]")))
    refused("must say its layout", step(double, value(ONES), output=row))
    row = extension_pb2.RunOutput(shape_with_layout=shape_to_proto(Shape.parse("f32[5]{0}")))
    refused("compatible with the result", step(double, value(ONES), output=row))
    broken = value(ONES)
    broken.value.data = b"123"
    refused("step 1: argument 0: .*16 bytes, got 3", good, step(double, broken))
    assert service.data.get(held)


def test_unknown_values_are_named_by_their_position(service: Session) -> None:
    add = compiled(service, ADD)
    held = kept(service, ONES)
    _bad(
        service,
        step(add, argument_of(held), argument_of(12345)),
        error=NotFoundError,
        match="step 0: argument 1: .*12345",
    )


def test_donated_values_are_gone(service: Session) -> None:
    double = compiled(service, DOUBLE)
    held = kept(service, ONES)
    outcomes = execute(service, step(double, argument_of(held, donate=True), fetch=16))
    np.testing.assert_array_equal(fetched(outcomes[0]), 2 * ONES)
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        service.data.get(held)


def test_what_was_donated_must_not_be_used_again(service: Session) -> None:
    double, add, pair = (compiled(service, name) for name in (DOUBLE, ADD, "pair"))
    held = kept(service, ONES)
    first = step(double, argument_of(held, donate=True))

    def refused(match: str, *steps: extension_pb2.RunStep) -> None:
        _bad(service, *steps, error=InvalidArgumentError, match=f"donated must not.*{match}")

    refused("argument 0 of step 1", first, step(double, argument_of(held)))
    refused("argument 0 of step 1", first, step(double, argument_of(held, donate=True)))
    refused("argument 1 of step 0", step(add, argument_of(held, donate=True), argument_of(held)))
    use = step(double, result_of(0, donate=True))
    refused("output of step 0", step(double, value(ONES), fetch=16), use)
    refused("output of step 0", step(double, value(ONES), output=keep()), use)
    # A part of it, and what it is a part of, are it too.
    part = step(double, result_of(0, 1, donate=True))
    refused("argument 0 of step 2", step(pair, value(ONES)), part, step(double, result_of(0, 1)))
    refused("output of step 0", step(pair, value(ONES), output=keep()), part)
    assert service.data.get(held)
    # Other parts are not, nor are uses before.
    execute(service, step(pair, value(ONES)), part, step(double, result_of(0, 0)))
    execute(service, step(double, argument_of(held)), first)


def test_a_run_whose_later_step_has_no_memory_does_not_begin(service: Session) -> None:
    double, big = compiled(service, DOUBLE), compiled(service, "big")
    held = kept(service, ONES)
    with pytest.raises(ResourceExhaustedError, match=r"step 1: .*1000 bytes.*in use"):
        execute(
            service,
            step(double, argument_of(held, donate=True), output=keep()),
            step(big, value(ONES)),
        )
    np.testing.assert_array_equal(service.data.get(held).to_literal().to_numpy(), ONES)


def test_an_error_of_a_later_step_leaves_nothing_but_donations(service: Session) -> None:
    double, held = compiled(service, DOUBLE), kept(service, ONES)
    cancellation = Cancellation()
    original = service.runner.run

    def run_and_cancel(*arguments: object, **named: object) -> object:
        ended = original(*arguments, **named)  # type: ignore[arg-type]
        cancellation.cancel(CancelledError("between two steps"))
        return ended

    service.runner.run = run_and_cancel  # type: ignore[method-assign,assignment]
    with pytest.raises(CancelledError, match="step 1: between two steps"):
        execute(
            service,
            step(double, argument_of(held, donate=True), output=keep()),
            step(double, value(ONES)),
            cancellation=cancellation,
        )
    assert len(service.data) == 0
    assert service.data.reserved_bytes == 0


def test_memory_is_reserved_for_all_steps_and_given_back_as_they_end(service: Session) -> None:
    double, pair = compiled(service, DOUBLE), compiled(service, "pair")
    result_bytes = ONES.nbytes
    request = run_request(
        step(pair, value(ONES)),
        step(double, result_of(0, 0), output=keep()),
        step(double, value(ONES)),
    )
    original, reserved = service.runner.run, list[int]()

    def watched(*arguments: object, **named: object) -> object:
        reserved.append(service.data.reserved_bytes - sent)
        return original(*arguments, **named)  # type: ignore[arg-type]

    service.runner.run = watched  # type: ignore[method-assign,assignment]
    with contextlib.closing(plan_run(service.grids, read_run(request))) as run:
        sent = service.data.reserved_bytes
        with run.executing(Cancellation()) as outcomes:
            assert len(outcomes) == 3
            assert service.data.reserved_bytes - sent == result_bytes
    # The pair, and the double of its first part; then two doubles.
    assert reserved == [3 * result_bytes, 3 * result_bytes, 2 * result_bytes]


def test_values_sent_along_and_back_have_limits(service: Session) -> None:
    double, big = compiled(service, DOUBLE), compiled(service, "big")
    over = value(ONES)
    over.value.shape.dimensions[0] = 1000
    _bad(
        service,
        step(double, over),
        error=ResourceExhaustedError,
        match="may take 1000 bytes, got 4000",
    )
    _bad(
        service,
        step(big, value(ONES), fetch=10_000),
        error=ResourceExhaustedError,
        match="a message may take 100 bytes",
    )


def test_a_run_stops_between_steps(service: Session) -> None:
    double = compiled(service, DOUBLE)
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(XlaError, match="gave up"):
        execute(service, step(double, value(ONES)), cancellation=cancellation)


def test_a_donated_value_that_another_handle_shares_is_not_written_over(
    service: Session,
) -> None:
    pair, double = compiled(service, PAIR), compiled(service, DOUBLE)
    (outcome,) = execute(service, step(pair, value(ONES), output=keep()))
    (whole,) = service.data.keep_all(outcome.kept)
    first, _ = service.data.deconstruct(whole)
    request = run_request(step(double, argument_of(first, donate=True)))
    with contextlib.closing(plan_run(service.grids, read_run(request))) as run:
        seen: Sequence[int] = ()
        original = service.runner.run

        def watched(*arguments: object, **named: object) -> object:
            nonlocal seen
            seen = arguments[4]  # type: ignore[assignment]
            return original(*arguments, **named)  # type: ignore[arg-type]

        service.runner.run = watched  # type: ignore[method-assign,assignment]
        with run.executing(Cancellation()):
            pass
    assert seen == []
    np.testing.assert_array_equal(service.data.get(whole).elements[0].to_literal().to_numpy(), ONES)
