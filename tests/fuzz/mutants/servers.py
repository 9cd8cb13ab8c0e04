"""A server process that gets mutated modules, and its answers as values."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
import psutil
from grpc import StatusCode

from tests.e2e.process import Raw, ServerProcess
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_from_proto

COMPILE_SECONDS = 60.0
EXECUTE_SECONDS = 5.0
"""Deadline of an execution: a mutated loop may go on for ever, which is its right."""

MAX_DEVICE_BYTES = 1 << 28
MAX_RESIDENT_BYTES = 3 << 30
"""Memory of a server process above which it leaks: the platform alone has a few hundred MiB."""

FLAGS = ("--max-device-bytes", str(MAX_DEVICE_BYTES), "--max-executables", "64")

COMPILE = "/xla.XlaService/Compile"


class ServerFaultError(Exception):
    """A server that died, grew, hung, or called an input its own fault."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Outcome of a module on a server: where it stopped and why, or the results."""

    stage: str
    code: StatusCode
    words: str = ""
    results: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.stage}: {self.code.name} {self.words}"[:400]


class Mutated:
    """A server of one platform."""

    def __init__(self, platform: str, server: ServerProcess) -> None:
        self.platform = platform
        self._server = server
        self._raw = Raw(server.address)
        self._process = psutil.Process(server.process.pid)

    def run(self, data: bytes, arguments: Sequence[Any]) -> Answer:
        """Compile a serialized CompileRequest and execute it, if there are arguments for it.

        Raises ServerFaultError for what no input may do to a server.
        """
        try:
            answer = self._run(data, arguments)
        except grpc.RpcError as error:
            raise self._fault(f"{error}") from None
        if self._server.process.poll() is not None:
            raise self._fault("the process ended")
        if answer.code in (StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.UNAVAILABLE):
            raise self._fault(f"{answer}")
        if answer.stage == "Compile" and answer.code is StatusCode.DEADLINE_EXCEEDED:
            raise self._fault(f"no answer in {COMPILE_SECONDS} s: {answer}")
        resident = self.resident_bytes
        if resident > MAX_RESIDENT_BYTES:
            raise self._fault(f"{resident} bytes resident, at most {MAX_RESIDENT_BYTES} are right")
        return answer

    @property
    def resident_bytes(self) -> int:
        """Memory of the process."""
        return int(self._process.memory_info().rss)

    def _run(self, data: bytes, arguments: Sequence[Any]) -> Answer:
        stage = "Compile"
        try:
            answer = self._raw.send_bytes(COMPILE, data, timeout=COMPILE_SECONDS)
            handle = xla_pb2.CompileResponse.FromString(answer).handle
        except grpc.RpcError as error:
            return _refusal(stage, error)
        kept: list[xla_data_pb2.GlobalDataHandle] = [
            xla_data_pb2.GlobalDataHandle(handle=handle.handle)
        ]
        try:
            stage = "Execute"
            uploaded = [self._raw.upload(argument) for argument in arguments]
            kept += uploaded
            request = xla_pb2.ExecuteRequest(handle=handle, arguments=uploaded)
            try:
                output = self._raw.Execute(request, timeout=EXECUTE_SECONDS).output
            except grpc.RpcError as error:
                return _refusal(stage, error)
            kept.append(output)
            stage = "TransferToClient"
            try:
                literal = literal_from_proto(self._raw.download(output))
            except grpc.RpcError as error:
                return _refusal(stage, error)
            return Answer("done", StatusCode.OK, "", tuple(_leaves(literal)))
        finally:
            self._raw.Unregister(xla_pb2.UnregisterRequest(data=kept), timeout=COMPILE_SECONDS)

    def _fault(self, words: str) -> ServerFaultError:
        tail = self._server.log.read_text()[-2000:]
        return ServerFaultError(f"{self.platform}: {words}\n{tail}")

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


def _refusal(stage: str, error: Any) -> Answer:
    return Answer(stage, error.code(), str(error.details()))


def _leaves(literal: Literal) -> list[Any]:
    if literal.shape.is_tuple:
        return [leaf for element in literal.elements for leaf in _leaves(element)]
    return [np.asarray(literal.to_numpy())] if literal.shape.is_array else []
