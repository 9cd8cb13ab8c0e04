"""Values exchanged while a program runs. Semantics: XLA's Infeed, Outfeed and AfterAll.

`Builder.infeed`, `Builder.create_token` and `Builder.after_all` are the sources that go with
these.
"""

from xla_client.builder import Op
from xla_contract.opcode import Opcode
from xla_contract.ops.infeed import InfeedAttributes
from xla_contract.ops.outfeed import OutfeedAttributes
from xla_contract.shape import Shape


def infeed_with_token(token: Op, shape: Shape, config: bytes = b"") -> Op:
    """A tuple: the next value of the infeed queue, taken after `token`, and a new token."""
    attributes = InfeedAttributes(shape, config)
    return token.builder.instruction(Opcode.INFEED, [token], attributes)


def outfeed(operand: Op, shape_with_layout: Shape | None = None, config: bytes = b"") -> Op:
    """Put a value into the outfeed queue; gives a token.

    Outfeeds that must follow each other in a known order take a token from one to the next:
    `outfeed_with_token`.
    """
    token = operand.builder.create_token()
    return outfeed_with_token(operand, token, shape_with_layout, config)


def outfeed_with_token(
    operand: Op, token: Op, shape_with_layout: Shape | None = None, config: bytes = b""
) -> Op:
    """Put a value into the outfeed queue after `token`; gives a new token."""
    shape = (shape_with_layout or operand.shape).with_default_layout()
    attributes = OutfeedAttributes(shape, config)
    return operand.builder.instruction(Opcode.OUTFEED, [operand, token], attributes)
