"""Parts of results: which are kept, which are sent back, and what is refused."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.sessions.sample_runs import (
    DOUBLE,
    ONES,
    PAIR,
    compiled,
    execute,
    open_service,
    result_of,
    run_request,
    step,
    value,
)
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.rpc.decode.runs import read_run
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.runs import run_outputs
from xla_server.sessions.session import Session


@pytest.fixture
def service() -> Iterator[Session]:
    quotas = Quotas(device_bytes=1000, handles=20)
    with open_service(1000, quotas, max_message_bytes=100) as made:
        yield made


def _part(*index: int, keep: bool = False, fetch: int = 0) -> xla_extension_pb2.RunPart:
    return xla_extension_pb2.RunPart(index=index, keep=keep, fetch_bytes=fetch)


def _parts(*parts: xla_extension_pb2.RunPart, keep: bool = False) -> xla_extension_pb2.RunOutput:
    return xla_extension_pb2.RunOutput(parts=parts, keep=keep)


def test_parts_are_kept_or_sent_back_each_by_itself(service: Session) -> None:
    pair = compiled(service, PAIR)
    output = _parts(_part(1, fetch=16), _part(0, keep=True), _part(1, keep=True, fetch=16))
    [outcome] = execute(service, step(pair, value(ONES), output=output))
    sent = [None if part.value is None else part.value.to_numpy() for part in outcome.parts]
    np.testing.assert_array_equal(sent[0], 2 * ONES)
    assert sent[1] is None
    np.testing.assert_array_equal(sent[2], 2 * ONES)
    assert [part.is_kept for part in outcome.parts] == [False, True, True]
    assert [kept.to_literal().to_numpy()[0] for kept in outcome.kept] == [1, 2]
    assert outcome.value is None


def test_those_of_parts_come_behind_the_whole(service: Session) -> None:
    pair = compiled(service, PAIR)
    output = _parts(_part(0, keep=True), keep=True)
    [outcome] = execute(service, step(pair, value(ONES), output=output))
    assert [str(kept.shape) for kept in outcome.kept] == ["(f32[4]{0}, f32[4]{0})", "f32[4]{0}"]


def test_a_part_that_is_larger_than_asked_for_is_kept_instead(service: Session) -> None:
    pair = compiled(service, PAIR)
    [outcome] = execute(service, step(pair, value(ONES), output=_parts(_part(1, fetch=15))))
    [part] = outcome.parts
    assert (part.is_kept, part.value, len(outcome.kept)) == (True, None, 1)


def test_a_part_keeps_its_result_until_it_is_seen(service: Session) -> None:
    """A step behind it, which reads the result too, must not take its memory."""
    pair, double = compiled(service, PAIR), compiled(service, DOUBLE)
    outcomes = execute(
        service,
        step(pair, value(ONES), output=_parts(_part(0, keep=True))),
        step(double, result_of(0, 1), output=_parts(_part(fetch=16))),
    )
    np.testing.assert_array_equal(outcomes[1].parts[0].value.to_numpy(), 4 * ONES)  # type: ignore[union-attr]
    assert service.data.reserved_bytes == 0


@pytest.mark.parametrize(
    ("part", "error", "words"),
    [
        (
            _part(2, keep=True),
            InvalidArgumentError,
            r"must lead to an element, got \[2\] into \(f32",
        ),
        (_part(-1, keep=True), InvalidArgumentError, r"must lead to an element, got \[-1\]"),
        (_part(0, 0, keep=True), InvalidArgumentError, r"must lead to an element, got \[0, 0\]"),
        (_part(0, fetch=-1), InvalidArgumentError, "fetch_bytes must not be negative, got -1"),
        (
            xla_extension_pb2.RunPart(
                index=[0], shape_with_layout=shape_to_proto(Shape.parse("f32[5]{0}"))
            ),
            InvalidArgumentError,
            r"must be compatible with the result, got f32\[5\]\{0\} for f32\[4\]",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_anything_runs(
    service: Session, part: xla_extension_pb2.RunPart, error: type[XlaError], words: str
) -> None:
    pair = compiled(service, PAIR)
    with pytest.raises(error, match=f"step 0: .*{words}"):
        execute(service, step(pair, value(ONES), output=_parts(part)))


def test_parts_are_bounded(service: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = compiled(service, PAIR)
    with pytest.raises(ResourceExhaustedError, match="100 bytes, got results of 112"):
        execute(service, step(pair, value(ONES), output=_parts(*[_part(0, fetch=16)] * 7)))
    monkeypatch.setattr(run_outputs, "MAX_PARTS", 2)
    with pytest.raises(InvalidArgumentError, match=r"at most 2 parts .*got 3"):
        execute(service, step(pair, value(ONES), output=_parts(*[_part(0)] * 3)))


def test_a_part_that_was_donated_must_not_be_seen(service: Session) -> None:
    pair, double = compiled(service, PAIR), compiled(service, DOUBLE)
    giving = step(double, result_of(0, 0, donate=True))
    for seen in (_part(0, keep=True), _part(keep=True)):
        with pytest.raises(InvalidArgumentError, match=r"part .* of the output of step 0"):
            execute(service, step(pair, value(ONES), output=_parts(seen)), giving)
    outcomes = execute(service, step(pair, value(ONES), output=_parts(_part(1, fetch=16))), giving)
    np.testing.assert_array_equal(outcomes[0].parts[0].value.to_numpy(), 2 * ONES)  # type: ignore[union-attr]


def test_a_launched_run_keeps_parts_and_sends_none(service: Session) -> None:
    pair = compiled(service, PAIR)
    launch = service.executions.launch
    request = run_request(step(pair, value(ONES), output=_parts(_part(1, keep=True))))
    execution = launch(read_run(request))
    done = threading.Event()
    execution.when_done(done.set)
    assert done.wait(100)
    [output] = execution.outputs[0]
    np.testing.assert_array_equal(service.data.get(output).to_literal().to_numpy(), 2 * ONES)
    request = run_request(step(pair, value(ONES), output=_parts(_part(1, fetch=16))))
    with pytest.raises(InvalidArgumentError, match="fetch_bytes must be 0, got 16 in step 0"):
        launch(read_run(request))
