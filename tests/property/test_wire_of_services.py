"""Any bytes sent to any rpc are answered by a status that says what is wrong with them.

Messages with random fields, changed bytes of good ones and bytes that are no message go to a server
in this process. They cause no fault of the server, and the next call is answered. The session's
resources are released when it ends.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import hypothesis.strategies as st
import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings

from tests.fault.plain import until
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    PAIR,
    argument_of,
    compiled,
    keep,
    kept,
    program,
    result_of,
    run_request,
    step,
    value,
)
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc, message_class
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_extension_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.literals.value_proto import value_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.server import RpcOptions, serving
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.session_registry import SessionEntry, SessionRegistry
from xla_server.sessions.shared_resources import SharedResources

SECONDS = 0.25
"""Until a call is given up: some wait for what never comes."""

LIMITS = Limits(
    1 << 20,
    max_message_bytes=1 << 20,
    shared_memory_bytes=1 << 20,
    session_shared_memory_bytes=1 << 16,
)
QUOTAS = Quotas(device_bytes=1 << 19, handles=4096, queued_items=8, queued_bytes=4096)
ONES = np.ones(4, np.float32)
SHAPES = ["f32[4]{0}", "f32[4]", "pred[3]{0}", "s32[]", "u8[0]{0}", "(f32[4]{0}, s32[])", "()"]
SHAPES += ["f32[<=4]{0}", "token[]", "s4[5]{0}", "c64[2,3]{0,1}", "f32[1099511627776,4]{1,0}"]
SMALL = (0, 1, 2, 3, 4, 8)
"""Numbers that mean something more often than others."""

EDGES = tuple(
    sign * 2**power - less for sign in (-1, 1) for power in (31, 40, 63) for less in (0, 1)
)
NUMBERS = (*SMALL, 64, 4096, 4097, -1, *EDGES, 2**62, 2**64 - 1)
PADDED = [Shape.parse("f32[4]{0}").with_layout(Layout((0,), (width,))) for width in (5, 2**45)]
ALL_RPCS = (*RPCS, *EXTENSION_RPCS)


class Target:
    """A session of a server with something of each kind in it, and what may be said about it."""

    def __init__(self, sessions: SessionRegistry, address: str) -> None:
        self.sessions = sessions
        self.session = self._opened()
        self._channel = grpc.insecure_channel(address)

    def _opened(self) -> SessionEntry:
        session = self.sessions.open()
        service = session.service
        arena = service.shared_memory.connect()
        offset, _ = arena.allocate(4096)
        self.double, add, pair = (compiled(service, name) for name in (DOUBLE, ADD, PAIR))
        self.data = kept(service, ONES)
        self.handles = [self.data, self.double, add, pair, offset]
        return session

    def send(
        self, rpc: Rpc, messages: list[bytes], seconds: float = SECONDS
    ) -> tuple[grpc.StatusCode, list[bytes]]:
        """The status of a call, and the answers there were."""
        if self.session.service.is_closed:
            self.session = self._opened()
        metadata = [("xla-session", self.session.token)]
        answers: list[bytes] = []
        try:
            if rpc.request_streaming and rpc.response_streaming:
                method: Any = self._channel.stream_stream(rpc.path)
                answers.extend(method(iter(messages), metadata=metadata, timeout=seconds))
            elif rpc.request_streaming:
                method = self._channel.stream_unary(rpc.path)
                answers.append(method(iter(messages), metadata=metadata, timeout=seconds))
            elif rpc.response_streaming:
                method = self._channel.unary_stream(rpc.path)
                answers.extend(method(messages[0], metadata=metadata, timeout=seconds))
            else:
                method = self._channel.unary_unary(rpc.path)
                answers.append(method(messages[0], metadata=metadata, timeout=seconds))
        except grpc.RpcError as error:
            return error.code(), answers
        return grpc.StatusCode.OK, answers

    def close(self) -> None:
        self.session.service.close()
        self._channel.close()


class Faults(logging.Handler):
    """Faults of the server: what it logs as errors, and threads that end by an exception."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))

    def ended(self, thread: threading.ExceptHookArgs) -> None:
        self.found.append(f"{thread.thread}: {thread.exc_value!r}")


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    handler = Faults()
    logging.getLogger("xla_server").addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", handler.ended)
        yield handler
    logging.getLogger("xla_server").removeHandler(handler)


@pytest.fixture(scope="module")
def target(faults: Faults) -> Iterator[Target]:
    engine = SharedResources(Interpreter(), LIMITS, ThreadPool(64, "execution"), QUOTAS)
    sessions = SessionRegistry(engine)
    options = RpcOptions(listen=("127.0.0.1:0",), max_message_bytes=LIMITS.max_message_bytes)
    with serving(sessions, options) as server:
        found = Target(sessions, server.address)
        yield found
        found.close()
        # Running calls end once they notice that their session has ended.
        until(lambda: not (engine.memory.used_bytes or engine.launched))
        until(lambda: not engine.arenas.lent_bytes)
    assert faults.found == []


class Sentences:
    """Makes up what to send, out of one source of chance."""

    def __init__(self, choose: random.Random, target: Target) -> None:
        self._choose = choose
        self._target = target
        one = run_request(
            step(target.double, argument_of(target.data), output=keep()),
            step(target.double, result_of(0), value(ONES), fetch=16),
        )
        single = run_request(step(target.double, value(ONES), output=keep()))
        self._known: dict[str, Callable[[], Message]] = {
            "xla.ShapeProto": self._shape,
            "xla.Value": lambda: value_to_proto(Literal.from_numpy(ONES)),
            "xla.LiteralProto": lambda: literal_to_proto(Literal.from_numpy(ONES)),
            "xla.HloModuleProto": lambda: self._module(program(DOUBLE)),
            "xla.RunRequest": lambda: choose.choice([one, single]),
            "xla.ConverseRequest": self._call,
            "xla.DeviceHandle": lambda: xla_data_pb2.DeviceHandle(device_count=1),
            "xla.GlobalDataHandle": lambda: xla_data_pb2.GlobalDataHandle(handle=target.data),
            "xla.ExecutionHandle": lambda: xla_data_pb2.ExecutionHandle(handle=target.double),
            "xla.ChannelHandle": lambda: xla_data_pb2.ChannelHandle(handle=1),
            "xla.Chunk": lambda: self._chunk(),
            "xla.Credit": lambda: xla_extension_pb2.Credit(items=2, bytes=100),
            "xla.OutfeedStart": lambda: xla_extension_pb2.OutfeedStart(),
        }

    def messages(self, rpc: Rpc) -> list[bytes]:
        """The requests of one call; those of a stream begin as they should, mostly."""
        count = self._choose.randrange(1, 5) if rpc.request_streaming else 1
        return [self._bytes(rpc.request, number) for number in range(count)]

    def _bytes(self, kind: type[Message], number: int) -> bytes:
        if self._choose.random() < 0.1:
            return self._choose.randbytes(self._choose.randrange(40))
        data = self._message(kind.DESCRIPTOR, 0, number).SerializeToString()
        return self._changed(data) if self._choose.random() < 0.3 else data

    def _changed(self, data: bytes) -> bytes:
        choose, changed = self._choose, bytearray(data)
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(len(changed) + 1)
            how = choose.randrange(4)
            if how == 0 and at < len(changed):
                changed[at] = choose.randrange(256)
            elif how == 1:
                changed[at:at] = choose.randbytes(choose.randrange(1, 4))
            elif how == 2:
                del changed[at : at + choose.randrange(1, 9)]
            else:
                changed += changed[at:]
        return bytes(changed)

    def _message(self, descriptor: Any, depth: int, number: int = 1) -> Message:
        known = self._known.get(descriptor.full_name)
        if known is not None and self._choose.random() < 0.8:
            message: Any = type(made := known())()
            message.CopyFrom(made)
            if self._choose.random() < 0.7:
                return message  # type: ignore[no-any-return]
        else:
            message = message_class(descriptor)()
        for field in descriptor.fields:
            starts = field.name == "start" and number == 0
            if starts or self._choose.random() < (0.8 if depth < 2 else 0.4):
                self._set(message, field, depth)
        if number == 0 and "start" in descriptor.fields_by_name:
            self._set(message, descriptor.fields_by_name["start"], depth)
        return message  # type: ignore[no-any-return]

    def _set(self, message: Any, field: Any, depth: int) -> None:
        is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if is_message and depth > 4:
            return
        if field.is_repeated:
            entries = getattr(message, field.name)
            for _ in range(self._choose.randrange(3)):
                if field.message_type is not None and field.message_type.GetOptions().map_entry:
                    return
                if is_message:
                    entries.append(self._message(field.message_type, depth + 1))
                else:
                    entries.append(self._scalar(field))
        elif is_message:
            getattr(message, field.name).CopyFrom(self._message(field.message_type, depth + 1))
        else:
            setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        choose = self._choose
        if field.type == FieldDescriptor.TYPE_BYTES:
            return choose.choice([b"", b"1", ONES.tobytes(), choose.randbytes(70)])
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return choose.choice(["", "x", "xla.XlaService/Execute", "\u00e9" * 300])
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return choose.random() < 0.5
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return choose.choice(list(field.enum_type.values)).number
        if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return choose.choice([0.0, -1.0, 1e300, float("nan")])
        least, most = _RANGES[field.cpp_type]
        while True:
            number = choose.choice([*SMALL, *NUMBERS, *self._target.handles])
            if least <= number <= most:
                return number

    def _chunk(self) -> Message:
        size = self._choose.choice([0, 1, 4, 16])
        offset = self._choose.choice([0, 0, 1, 4, 16])
        return xla_extension_pb2.Chunk(offset=offset, data=ONES.tobytes()[:size])

    def _shape(self) -> Message:
        if self._choose.random() < 0.2:
            return shape_to_proto(self._choose.choice(PADDED))
        return shape_to_proto(Shape.parse(self._choose.choice(SHAPES)))

    def _call(self) -> Message:
        rpc = self._choose.choice(ALL_RPCS)
        return xla_extension_pb2.ConverseRequest(
            id=self._choose.randrange(4),
            method=rpc.path[1:],
            request=self._bytes(rpc.request, 1),
            timeout_milliseconds=self._choose.choice([0, 1, 50, 2**64 - 1]),
            cancel=self._choose.random() < 0.1,
        )

    @staticmethod
    def _module(computation: Any) -> Message:
        module = hlo_pb2.HloModuleProto()
        computation.write_to(module)
        return module


_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


@pytest.mark.parametrize("rpc", ALL_RPCS, ids=lambda rpc: rpc.name)
@settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_sent_is_no_fault_of_the_server(
    target: Target, faults: Faults, rpc: Rpc, seed: int
) -> None:
    sentences = Sentences(random.Random(seed), target)
    code, _ = target.send(rpc, sentences.messages(rpc))
    assert faults.found == []
    assert code is not grpc.StatusCode.UNKNOWN
    # XlaService answers some mistakes of clients with INTERNAL, as the reference does.
    assert code is not grpc.StatusCode.INTERNAL or rpc in RPCS
    assert _describes(target)


def _describes(target: Target) -> bool:
    describe = next(each for each in EXTENSION_RPCS if each.name == "DescribeSession")
    code = grpc.StatusCode.UNAUTHENTICATED
    while code is grpc.StatusCode.UNAUTHENTICATED:
        # A call that was given up may have closed the session after all: it is opened again.
        code, _ = target.send(describe, [b""], seconds=30)
    return code is grpc.StatusCode.OK
