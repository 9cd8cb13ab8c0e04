"""The platforms that are compared, each in a process of its own, which may die."""

import multiprocessing
import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tests.fuzz.answers.shrinking.alone import shapes_of
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType as E

SECONDS = 120.0
"""Time after which a process that has not answered is ended; a busy machine takes its time."""

_XLA_FLAGS = "--xla_allow_excess_precision=false"
"""XLA without excess precision: each instruction rounds its result, as HLO says. Its fusion pass
stays, as without it jaxlib reads some transposed operands in another order."""

Run = Callable[[hlo_pb2.HloModuleProto, Sequence[Any]], list[Any]]


class SideError(Exception):
    """A side that gives no results: `is_refusal` if it said so, else it died or hung."""

    def __init__(self, words: str, *, is_refusal: bool) -> None:
        super().__init__(words)
        self.is_refusal = is_refusal


class Side:
    """A process that runs modules, started anew when it has died."""

    def __init__(self, name: str, *, seconds: float = SECONDS) -> None:
        self.name = name
        self._seconds = seconds
        self._process: Any = None
        self._connection: Connection | None = None

    def run(self, proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
        """Return the results, a tuple taken apart; raises SideError where there are none."""
        if self._process is None or not self._process.is_alive():
            self._start()
        assert self._connection is not None
        try:
            self._connection.send_bytes(pickle.dumps((proto.SerializeToString(), list(arguments))))
            if not self._connection.poll(self._seconds):
                self.close()
                raise SideError(f"no answer within {self._seconds} s", is_refusal=False)
            results, words = pickle.loads(self._connection.recv_bytes())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            raise SideError(f"the process died with {code}", is_refusal=False) from None
        if results is None:
            raise SideError(words, is_refusal=True)
        return _own(results)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.name, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            assert self._connection is not None
            self._connection.close()
        self._process = self._connection = None


def _own(arrays: Sequence[Any]) -> list[Any]:
    """Return arrays of the original types: numpy marks those of unpickled arrays as foreign."""
    return [array.view(E.from_dtype(array.dtype).dtype) for array in map(np.asarray, arrays)]


def _serve(name: str, connection: Connection) -> None:
    with tempfile.TemporaryFile() as errors:
        # The report leaves out messages of a library that dies.
        os.dup2(errors.fileno(), 2)
        run = _RUNS[name]()
        while True:
            try:
                data, arguments = pickle.loads(connection.recv_bytes())
            except EOFError:
                return
            try:
                proto = hlo_pb2.HloModuleProto.FromString(data)
                answer: tuple[Any, str] = (run(proto, _own(arguments)), "")
            except Exception as error:
                answer = (None, f"{type(error).__name__}: {error}"[:2000])
            connection.send_bytes(pickle.dumps(answer))


def _cpu() -> Run:
    from tests.unit.codegen.compiled import on_cpu
    from xla_server.ir.importer import import_module

    return lambda proto, arguments: on_cpu(import_module(proto), arguments)


def _jaxlib() -> Run:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_XLA_FLAGS}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from tests.conformance.oracle import run_on_xla

    def run(proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
        # Arguments are placed in the default layout, whatever the module says.
        for shape in shapes_of(proto):
            if shape.HasField("layout"):
                shape.layout.minor_to_major[:] = range(len(shape.dimensions) - 1, -1, -1)
        return run_on_xla(proto, arguments)

    return run


_RUNS: dict[str, Callable[[], Run]] = {"cpu": _cpu, "jaxlib": _jaxlib}
