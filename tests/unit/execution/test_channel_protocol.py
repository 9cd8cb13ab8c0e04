from collections.abc import Sequence

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import FailedPreconditionError, ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.plan import PlanCache
from xla_server.execution import channel_protocol
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import MAX_ITEMS, NoChannels, OwnChannels, channel_ends
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation
from xla_server.ops.evaluation import Value

SCALAR = Shape.parse("f32[]")
ONE = np.ones((), np.float32)


def main_of(*lines: str) -> HloComputation:
    """A computation with these instructions, in this order, and the argument x = f32[]."""
    text = "HloModule m\nENTRY main {\nx = f32[] parameter(0)\nt = token[] after-all()\n"
    proto = parse_hlo(text + "\n".join(lines) + "\nROOT result = f32[] negate(x)\n}")
    (main,) = proto.computations
    names = ["x", "t", *(line.split(" = ")[0] for line in lines), "result"]
    parts = {part.name: part for part in main.instructions}
    del main.instructions[:]
    main.instructions.extend(parts[name] for name in names)
    return import_module(proto).entry


def send(channel_id: int, token: str = "t") -> Sequence[str]:
    name = f"send{channel_id}"
    return (
        f"{name} = (f32[], u32[], token[]) send(x, {token}), channel_id={channel_id}",
        f"{name}d = token[] send-done({name}), channel_id={channel_id}",
    )


def recv(channel_id: int, token: str = "t") -> Sequence[str]:
    name = f"recv{channel_id}"
    return (
        f"{name} = (f32[], u32[], token[]) recv({token}), channel_id={channel_id}",
        f"{name}d = (f32[], token[]) recv-done({name}), channel_id={channel_id}",
    )


class Recorder:
    """Channels whose other ends are always ready."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        self.calls.append(f"send {channel_id}")

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        self.calls.append(f"receive {channel_id}")
        return ONE


def test_what_need_not_wait_goes_first() -> None:
    channels = Recorder()
    evaluate(main_of(*recv(1), *send(2)), [ONE], options=ExecuteOptions(channels=channels))
    assert channels.calls == ["send 2", "receive 1"]


def test_what_a_token_puts_behind_a_recv_stays_behind_it() -> None:
    behind = "after = token[] get-tuple-element(recv1d), index=1"
    channels = Recorder()
    evaluate(
        main_of(*recv(1), *recv(3), behind, *send(2, "after")),
        [ONE],
        options=ExecuteOptions(channels=channels),
    )
    assert channels.calls == ["receive 1", "send 2", "receive 3"]
    opcodes = [step.instruction.opcode for step in PlanCache().of(main_of(*send(2))).steps]
    assert opcodes == [Opcode.AFTER_ALL, Opcode.SEND, Opcode.SEND_DONE, Opcode.NEGATE]


def test_only_a_channel_with_both_ends_in_the_program_is_its_own() -> None:
    channels = Recorder()
    evaluate(
        main_of(*send(1), *send(2), *recv(1), *recv(3)),
        [ONE],
        options=ExecuteOptions(channels=channels),
    )
    assert channels.calls == ["send 2", "receive 3"]
    ends = channel_ends(main_of(*send(1), *send(2), *recv(1), *recv(3)))
    assert ends == ({1, 2}, {1, 3})


def test_bytes_that_wait_behind_others_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_protocol, "MAX_BYTES", 7)
    own = OwnChannels(main_of(*send(1), *recv(1), *send(2), *recv(2)), NoChannels())
    for channel in (1, 2, 1):
        own.send(channel, ONE, SCALAR, Cancellation())
    rule = r"^7 bytes may wait behind .* got 4 more of f32\[\] on channel 2 with 4 there$"
    with pytest.raises(ResourceExhaustedError, match=rule):
        own.send(2, ONE, SCALAR, Cancellation())
    assert own.receive(1, SCALAR, Cancellation()) is ONE
    assert own.receive(1, SCALAR, Cancellation()) is ONE
    own.send(2, ONE, SCALAR, Cancellation())


def test_a_run_that_sends_without_end_is_stopped() -> None:
    own = OwnChannels(main_of(*send(1), *recv(1)), NoChannels())
    for _ in range(MAX_ITEMS):
        own.send(1, ONE, SCALAR, Cancellation())
    with pytest.raises(ResourceExhaustedError, match=rf"^{MAX_ITEMS} values .* on channel 1$"):
        own.send(1, ONE, SCALAR, Cancellation())
    for _ in range(MAX_ITEMS):
        assert own.receive(1, SCALAR, Cancellation()) is ONE
    with pytest.raises(FailedPreconditionError, match="before it is received"):
        own.receive(1, SCALAR, Cancellation())
