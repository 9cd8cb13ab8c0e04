"""Broken sends and receives."""

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_FIRST_HALF = "the operand must be the first half's (data, u32[], token[]), got "

_CHANNEL = ChannelAttributes(3)
_STARTED = "(f32[2], u32[], token[])"


def _send(message: str, data: str, token: str) -> Case:
    return Case(
        Opcode.SEND,
        (data, token),
        message,
        _CHANNEL,
        lambda x, after: ops.send_with_token(x, after, 3),
        declared=_STARTED,
    )


def _recv(message: str, token: str, data: str) -> Case:
    shape = Shape.parse(data)
    return Case(
        Opcode.RECV,
        (token,),
        message,
        RecvAttributes(shape, 3),
        lambda after: ops.recv_with_token(after, shape, 3),
        declared=f"({data}, u32[], token[])",
    )


CASES: tuple[Case, ...] = (
    _send("the second operand must be a token, got f32[2]", "f32[2]", "f32[2]"),
    _send(
        "only arrays can go through a channel, got (f32[2], token[])",
        "(f32[2], token[])",
        "token[]",
    ),
    _recv("the operand must be a token, got f32[2]", "f32[2]", "f32[2]"),
    _recv("only arrays can go through a channel, got token[]", "token[]", "token[]"),
    Case(
        Opcode.RECV,
        ("token[]",),
        "the result must be (data, u32[], token[]), got f32[2]",
        RecvAttributes(Shape.parse("f32[2]"), 3),
        "the builder declares the tuple itself",
        edit=lambda proto: proto,
    ),
    Case(Opcode.SEND_DONE, ("f32[2]",), _FIRST_HALF + "f32[2]", _CHANNEL, declared="token[]"),
    Case(
        Opcode.RECV_DONE,
        ("(f32[2], s32[], token[])",),
        _FIRST_HALF + "(f32[2], s32[], token[])",
        _CHANNEL,
        declared="(f32[2], token[])",
    ),
)
