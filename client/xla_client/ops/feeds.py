"""Values exchanged while a program runs.

Semantics: XLA's Infeed, Outfeed, AfterAll, Send, Recv, SendToHost and RecvFromHost.
`Builder.infeed`, `Builder.recv`, `Builder.create_token` and `Builder.after_all` are the sources
that go with these. Channels are numbers: any, where both ends are in one program or in the
programs of one `Client.execute_parallel`; else one that `Client.create_channel_handle` gave.
"""

from xla_client.coercion.numbers import data
from xla_client.coercion.shapes import ShapeLike, as_shape
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Op
from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_contract.ops.feeds.outfeed import OutfeedAttributes
from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.types.opcode import Opcode


@checked
def infeed(builder: Builder, shape: ShapeLike, config: bytes | str = b"") -> Op:
    """The next value of the device's infeed queue: `Builder.infeed`.

    A run waits for the value. One of another shape is refused, and the run waits on.

    Args:
        builder: The builder of the program.
        shape: The shape of the value, as "f32[3]"; an array or a flat tuple of arrays.
        config: Bytes for the platform; this project's platforms ignore them.

    Returns:
        The value.

    Raises:
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> ops.infeed(Builder("example"), "f32[3]")
        %get-tuple-element.3: f32[3]

    See https://openxla.org/xla/operation_semantics#infeed
    """
    return builder.infeed(shape, config)


@checked
def recv(builder: Builder, shape: ShapeLike, channel_id: int) -> Op:
    """The next value on a channel, which must have this shape: `Builder.recv`.

    Args:
        builder: The builder of the program.
        shape: The shape of the value, as "f32[3]".
        channel_id: The number of the channel; see the head of this module.

    Returns:
        The value.

    Raises:
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> ops.recv(Builder("example"), "f32[3]", 1)
        %get-tuple-element.4: f32[3]

    See https://openxla.org/xla/operation_semantics#recv
    """
    return builder.recv(shape, channel_id)


@checked
def infeed_with_token(token: Op, shape: ShapeLike, config: bytes | str = b"") -> Op:
    """A tuple: the next value of the infeed queue, taken after `token`, and a new token.

    Args:
        token: The token to wait for.
        shape: The shape of the value, as "f32[3]".
        config: Bytes for the platform; this project's platforms ignore them.

    Returns:
        A tuple of the value and a new token.

    Raises:
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> b = Builder("example")
        >>> ops.infeed_with_token(b.create_token(), "f32[3]")
        %infeed.2: (f32[3], token[])

    See https://openxla.org/xla/operation_semantics#infeed
    """
    attributes = InfeedAttributes(as_shape(shape), data("config", config))
    return token.builder.instruction(Opcode.INFEED, [token], attributes)


@checked
def outfeed(
    operand: Op, shape_with_layout: ShapeLike | None = None, config: bytes | str = b""
) -> Op:
    """Put a value into the outfeed queue; return a token.

    Outfeeds that must follow each other in a known order take a token from one to the next:
    `outfeed_with_token`.

    Args:
        operand: An array or a flat tuple of arrays.
        shape_with_layout: The operand's shape, with the layout to send it in.
        config: Bytes for the platform; this project's platforms ignore them.

    Returns:
        A token.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.outfeed(x)
        %outfeed.3: token[]
    """
    token = operand.builder.create_token()
    return outfeed_with_token(operand, token, shape_with_layout, config)


@checked
def outfeed_with_token(
    operand: Op, token: Op, shape_with_layout: ShapeLike | None = None, config: bytes | str = b""
) -> Op:
    """Put a value into the outfeed queue after `token`; return a new token.

    Args:
        operand: An array or a flat tuple of arrays.
        token: The token to wait for.
        shape_with_layout: The operand's shape, with the layout to send it in.
        config: Bytes for the platform; this project's platforms ignore them.

    Returns:
        A new token.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.outfeed_with_token(x, ops.outfeed(x))
        %outfeed.4: token[]
    """
    declared = operand.shape if shape_with_layout is None else as_shape(shape_with_layout)
    shape = declared.with_default_layout()
    attributes = OutfeedAttributes(shape, data("config", config))
    return operand.builder.instruction(Opcode.OUTFEED, [operand, token], attributes)


@checked
def send(operand: Op, channel_id: int) -> Op:
    """Send a value to the recv at the other end of a channel; return a token.

    Sends that must follow each other in a known order take a token from one to the next:
    `send_with_token`. Raises ShapeError for anything but arrays and tuples of them.

    Args:
        operand: An array or a tuple of arrays.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        A token.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.send(x, 1)
        %send-done.4: token[]

    See https://openxla.org/xla/operation_semantics#send
    """
    return send_with_token(operand, operand.builder.create_token(), channel_id)


@checked
def send_with_token(operand: Op, token: Op, channel_id: int) -> Op:
    """Send a value after `token`; return a new token. Raises as `send`.

    Args:
        operand: An array or a tuple of arrays.
        token: The token to wait for.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        A new token.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.send_with_token(x, ops.send(x, 1), 2)
        %send-done.6: token[]

    See https://openxla.org/xla/operation_semantics#send
    """
    return _send(operand, token, ChannelAttributes(channel_id))


@checked
def recv_with_token(token: Op, shape: ShapeLike, channel_id: int) -> Op:
    """A tuple: the next value on a channel, waited for after `token`, and a new token.

    Args:
        token: The token to wait for.
        shape: The shape of the value, as "f32[3]".
        channel_id: The number of the channel; see the head of this module.

    Returns:
        A tuple of the value and a new token.

    Raises:
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> b = Builder("example")
        >>> ops.recv_with_token(b.create_token(), "f32[3]", 1)
        %recv-done.3: (f32[3], token[])

    See https://openxla.org/xla/operation_semantics#recv
    """
    return _recv(token, RecvAttributes(as_shape(shape).without_layout(), channel_id))


@checked
def send_to_host(operand: Op, token: Op, channel_id: int) -> Op:
    """Send a value to the host after `token`; return a new token.

    The client reads it from the channel: `client.device().outfeed(channel_id=...)`.

    Args:
        operand: An array or a tuple of arrays.
        token: The token to wait for.
        channel_id: The number of a channel of type 2 that `Client.create_channel_handle` gave.

    Returns:
        A new token.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.send_to_host(x, x.builder.create_token(), 1)
        %send-done.4: token[]

    See https://openxla.org/xla/operation_semantics#send
    """
    return _send(operand, token, ChannelAttributes(channel_id, is_host_transfer=True))


@checked
def recv_from_host(token: Op, shape: ShapeLike, channel_id: int) -> Op:
    """A tuple: the next value from the host, waited for after `token`, and a new token.

    The client writes it to the channel: `client.device().infeed(channel_id=...)`.

    Args:
        token: The token to wait for.
        shape: The shape of the value, as "f32[3]".
        channel_id: The number of a channel of type 3 that `Client.create_channel_handle` gave.

    Returns:
        A tuple of the value and a new token.

    Raises:
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> b = Builder("example")
        >>> ops.recv_from_host(b.create_token(), "f32[3]", 1)
        %recv-done.3: (f32[3], token[])

    See https://openxla.org/xla/operation_semantics#recv
    """
    return _recv(
        token, RecvAttributes(as_shape(shape).without_layout(), channel_id, is_host_transfer=True)
    )


def _send(operand: Op, token: Op, attributes: ChannelAttributes) -> Op:
    builder = operand.builder
    sending = builder.instruction(Opcode.SEND, [operand, token], attributes)
    return builder.instruction(Opcode.SEND_DONE, [sending], attributes)


def _recv(token: Op, attributes: RecvAttributes) -> Op:
    builder = token.builder
    receiving = builder.instruction(Opcode.RECV, [token], attributes)
    done = ChannelAttributes(attributes.channel_id, attributes.is_host_transfer)
    return builder.instruction(Opcode.RECV_DONE, [receiving], done)
