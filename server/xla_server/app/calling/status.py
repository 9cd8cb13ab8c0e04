"""The output of xla-server status and top: the answer of DescribeServer as text."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.app.calling.remote import Remote
from xla_server.app.options.sizes import readable_size

_IDENTITY_WIDTH = 32
"""Characters of an identity that are shown."""

_COLUMNS = (
    *("identity", "client", "calls", "values", "handles", "executables"),
    *("running+launched", "fullest feed", "unused for"),
)


def server_state(remote: Remote, sessions: int) -> extension_pb2.DescribeServerResponse:
    """Return a server's state, with the states of at most `sessions` sessions; raises XlaError."""
    request = extension_pb2.DescribeServerRequest(sessions=sessions)
    state: extension_pb2.DescribeServerResponse = remote.call("DescribeServer", request)
    return state


def as_json(state: extension_pb2.DescribeServerResponse) -> str:
    """Return a state as one line of JSON with the field names of the contract, zeros included."""
    return json.dumps(_plain(state))


def _plain(value: Any) -> Any:
    """Convert a message to values of JSON.

    Numbers stay numbers, though protobuf's JSON quotes them.
    """
    if isinstance(value, Message):
        return {field.name: _plain(getattr(value, field.name)) for field in value.DESCRIPTOR.fields}
    return value if isinstance(value, str | int | float) else [_plain(each) for each in value]


def as_lines(state: extension_pb2.DescribeServerResponse) -> Iterator[str]:
    """Return a state as lines for people."""
    yield f"{state.server}, platform {state.platform}, up {_duration(state.seconds)}"
    yield f"devices     {len(state.devices)}: {_listed(state.devices)}"
    yield (
        f"memory      {_of_bytes(state.device_bytes)} on devices, "
        f"{_of_bytes(state.shared_bytes)} shared, {_of_bytes(state.answer_bytes)} in answers, "
        f"{_of_bytes(state.resident_bytes)} resident"
    )
    yield (
        f"executables {_of(state.executables)} in use, {_of(state.idle_executables)} idle; "
        f"fusions that failed to compile: {state.fusion_faults}"
    )
    yield (
        f"executions  {_of(state.executions)} running, {_of(state.launched_executions)} launched, "
        f"{state.waiting_executions} waiting for memory"
    )
    pools = "; ".join(f"{pool.name}: {pool.threads}, {pool.waiting}" for pool in state.pools)
    yield f"calls       {_of(state.calls)}, streams {_of(state.streams)}"
    yield f"threads, and calls that wait for one: {pools}"
    yield f"sessions    {_of(state.sessions)}"
    if state.described_sessions:
        yield from _table(_COLUMNS, [_row(each) for each in state.described_sessions])


def _row(session: extension_pb2.SessionSummary) -> Sequence[str]:
    use = session.use
    identity = session.identity
    if len(identity) > _IDENTITY_WIDTH:
        identity = f"{identity[: _IDENTITY_WIDTH - 3]}..."
    return (
        identity,
        "here" if session.is_attached or session.calls else "away",
        str(session.calls),
        readable_size(use.device_bytes),
        str(use.handles),
        str(session.executables),
        f"{use.concurrent_executions}+{use.launched_executions}",
        f"{use.queued_items} ({readable_size(use.queued_bytes)})",
        _duration(session.idle_seconds) if session.idle_seconds else "-",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _of(usage: extension_pb2.Usage) -> str:
    return f"{usage.used} of {usage.limit}" if usage.limit else str(usage.used)


def _of_bytes(usage: extension_pb2.Usage) -> str:
    used = readable_size(usage.used)
    return f"{used} of {readable_size(usage.limit)}" if usage.limit else used


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
