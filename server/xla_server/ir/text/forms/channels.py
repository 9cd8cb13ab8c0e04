"""The forms of send and recv."""

from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.text.attribute_kinds import BOOL, INTEGER
from xla_server.ir.text.forms.form import Attribute, Form, element, record_form

_CHANNEL = (Attribute("channel_id", INTEGER, 0), Attribute("is_host_transfer", BOOL, False))


_FORM = record_form(ChannelAttributes, *_CHANNEL)

CHANNELS: dict[Opcode, Form] = {
    Opcode.SEND: _FORM,
    Opcode.SEND_DONE: _FORM,
    Opcode.RECV: record_form(
        RecvAttributes, lambda shape: element(shape, 0).without_layout(), *_CHANNEL
    ),
    Opcode.RECV_DONE: _FORM,
}
"""The operations over channels."""
