from typing import Any

import jax
import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import run_on_xla
from tests.corpus.hlo_text import parse_hlo
from tests.unit.sessions.feeds.jobs import device_feeds
from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
)
from xla_contract.ops.definitions import definition
from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.sessions.feeds.channel_table import ChannelTable, ChannelType
from xla_server.sessions.values.handles import HandleFactory, HandleKind

BETWEEN = "(f32[2], u32[], token[])"
X = np.array([1, 2], np.float32)

LOOPBACK = """
HloModule loopback
ENTRY main { x = f32[2] parameter(0)
  start = token[] after-all()
  recv = (f32[2], u32[], token[]) recv(start), channel_id=7 %(attributes)s
  received = (f32[2], token[]) recv-done(recv), channel_id=7 %(done)s
  value = f32[2] get-tuple-element(received), index=0
  doubled = f32[2] add(value, value)
  send = (f32[2], u32[], token[]) send(x, start), channel_id=7 %(attributes)s
  sent = token[] send-done(send), channel_id=7 %(done)s
  ROOT result = (f32[2], f32[2]) tuple(doubled, x) }
"""


def module_of(text: str) -> HloModule:
    """The module with its instructions in the order of the text."""
    proto = parse_hlo(text)
    (main,) = proto.computations
    order = sorted(main.instructions, key=lambda part: text.index(f"{part.name} = "))
    del main.instructions[:]
    main.instructions.extend(order)
    module = import_module(proto)
    verify(module)
    return module


def loopback(attributes: str = "", done: str = "") -> HloModule:
    return module_of(LOOPBACK % {"attributes": attributes, "done": done})


def pairs(value: str) -> str:
    return f', frontend_attributes={{_xla_send_recv_source_target_pairs="{value}"}}'


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_DONE, Opcode.RECV, Opcode.RECV_DONE])
def test_attributes_come_back_from_the_wire(opcode: Opcode) -> None:
    attributes: object = ChannelAttributes(7, True)
    if opcode is Opcode.RECV:
        attributes = RecvAttributes(Shape.parse("f32[2]"), 7, True)
    proto = hlo_pb2.HloInstructionProto()
    definition(opcode).encode(attributes, proto)
    assert definition(opcode).decode(proto, Shape.parse(BETWEEN)) == attributes


def test_a_program_sends_to_itself_in_whatever_order_it_is_stored() -> None:
    doubled, x = evaluate_checked(loopback(), [X])
    np.testing.assert_array_equal(doubled, 2 * X)
    np.testing.assert_array_equal(x, X)


def test_every_run_has_channels_of_its_own() -> None:
    module, plans = loopback(), PlanCache()
    for value in (X, 3 * X):
        doubled, _ = evaluate(module, [value], plans=plans)
        np.testing.assert_array_equal(doubled, 2 * value)


def test_device_0_sends_to_itself_and_to_no_other() -> None:
    doubled, _ = evaluate(loopback(pairs("{{0, 0}}")), [X])
    np.testing.assert_array_equal(doubled, 2 * X)
    for others in ("{{0,1}}", "{{1,0}}", "{{0,1},{1,0}}"):
        with pytest.raises(UnimplementedError, match=r"^recv %recv: .*\{\{0,0\}\}, got .*1"):
            evaluate(loopback(pairs(others)), [X])


def test_transfers_with_the_host_use_the_queues_of_their_channel() -> None:
    handles = HandleFactory()
    back, out = (
        handles.issue(kind)
        for kind in (HandleKind.HOST_TO_DEVICE_CHANNEL, HandleKind.DEVICE_TO_HOST_CHANNEL)
    )
    feeds = device_feeds(channels=ChannelTable(handles, max_items=1, max_bytes=8))
    host = LOOPBACK % {"attributes": ", is_host_transfer=true", "done": ", is_host_transfer=true"}
    head, tail = host.split("send = ")
    text = head.replace("=7", f"={back}") + "send = " + tail.replace("=7", f"={out}")
    back_feeds = feeds.channel(back, ChannelType.HOST_TO_DEVICE)
    back_feeds.transfer_to_infeed(Literal.from_numpy(3 * X), Cancellation(), lambda _: None)
    doubled, _ = evaluate_checked(
        module_of(text), [X], options=ExecuteOptions(feeds=feeds.bound_to("program"))
    )
    np.testing.assert_array_equal(doubled, 6 * X)
    assert back_feeds.infeed.queue.size == (0, 0)
    (sent,) = feeds.channel(out, ChannelType.DEVICE_TO_HOST).outfeed.queue.front()
    assert sent == Shape.parse("f32[2]")


def test_xla_s_cpu_has_neither_kind_so_there_is_no_oracle() -> None:
    plain = LOOPBACK % {"attributes": "", "done": ""}
    host = plain.replace("=7", "=7, is_host_transfer=true")
    # A channel to the host has one end in the program.
    head, tail = host.split("send = ")
    for text in (plain, head + "send = " + tail.replace("=7", "=8")):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"UNIMPLEMENTED: .* `(send|recv)` is"):
            run_on_xla(parse_hlo(text), [X])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("sent", {"channel_id": 8}, r"^send-done %sent: .*got 8, False and 7, False in send"),
        ("received", {"is_host_transfer": True}, r"^recv-done %received: .*got 7, True and 7, Fal"),
        ("received", {"operand_ids": ["send"]}, r"operand must be a recv, got send %send"),
    ],
)
def test_halves_must_agree(name: str, changes: dict[str, Any], message: str) -> None:
    proto = parse_hlo(LOOPBACK % {"attributes": "", "done": ""})
    parts = {part.name: part for part in proto.computations[0].instructions}
    if operands := changes.pop("operand_ids", None):
        parts[name].operand_ids[:] = [parts[operand].id for operand in operands]
    parts[name].MergeFrom(hlo_pb2.HloInstructionProto(**changes))
    with pytest.raises(InvalidArgumentError, match=message):
        verify(import_module(proto))


def test_a_value_without_a_sender_is_not_waited_for() -> None:
    text = LOOPBACK % {"attributes": "", "done": ""}
    twice = text.replace(
        "ROOT result",
        "again = (f32[2], u32[], token[]) recv(sent), channel_id=7\n"
        "none = (f32[2], token[]) recv-done(again), channel_id=7\nROOT result",
    )
    with pytest.raises(FailedPreconditionError, match=r"^recv-done %none: .*channel 7"):
        evaluate(module_of(twice), [X])
    other = text.replace("send(x, start), channel_id=7", "send(x, start), channel_id=8").replace(
        "send-done(send), channel_id=7", "send-done(send), channel_id=8"
    )
    with pytest.raises(FailedPreconditionError, match=r"^send %send: the recv at the other end"):
        evaluate(module_of(other), [X])


def test_both_ends_must_have_one_shape() -> None:
    text = LOOPBACK.replace("send(x, start)", "send(wide, start)").replace(
        "send = (f32[2]", "wide = f32[3] constant({1,2,3})\nsend = (f32[3]"
    )
    with pytest.raises(InvalidArgumentError, match=r"f32\[3\] sent and f32\[2\] received"):
        evaluate(module_of(text % {"attributes": "", "done": ""}), [X])
