"""Cost, memory and explanations of executables.

Semantics: counts and sizes are those of XLA's HLO cost analysis and buffer assignment.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xla_client.runs.arguments import Argument, on_device
from xla_client.session.public_methods import public
from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

if TYPE_CHECKING:
    from xla_client.session.session import Session
    from xla_contract.types.shape import ProgramShape

_FORMATS = {
    "text": extension_pb2.MODULE_FORMAT_TEXT,
    "proto": extension_pb2.MODULE_FORMAT_PROTO,
    "dot": extension_pb2.MODULE_FORMAT_DOT,
    "html": extension_pb2.MODULE_FORMAT_HTML,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """A static count of operations on numbers, of transcendental functions, and of bytes.

    Bytes are those of arrays that are read and written. Loops and branches count once.
    """

    operations: float
    transcendentals: float
    bytes: float


@dataclasses.dataclass(frozen=True, slots=True)
class CostAnalysis:
    """The work that a program asks for, and the work that its compiled code does.

    `done` is None if there is no such code: on the interpreter, and for dynamic shapes.
    """

    once: Work
    done: Work | None


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Memory of one execution, and of the program as long as it lives, in bytes.

    `peak_bytes` is the most that exists at once during an execution, the arguments included;
    `kept_bytes` is the size of code and constants.
    """

    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    constant_bytes: int
    peak_bytes: int
    kept_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """The files of a compilation by name: modules, kernels, the map of the buffers, a profile.

    docs/DUMPS.md says what is in them. `is_cut` is True if not all of them fitted.
    """

    files: Mapping[str, bytes]
    is_cut: bool

    def text(self, part: str) -> str:
        """Return the first file whose name contains `part`, as text.

        Raises:
            KeyError: There is none; the message has the names there are.
        """
        for name, data in self.files.items():
            if part in name:
                return data.decode()
        raise KeyError(f"no file has {part!r} in its name, of {', '.join(self.files)}")

    def save(self, directory: str | Path) -> None:
        """Write the files into a directory, which is made if it is missing."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / Path(name).name).write_bytes(data)

    def __repr__(self) -> str:
        cut = ", more left out" if self.is_cut else ""
        return f"Explanation({', '.join(self.files)}{cut})"


class Explainable(abc.ABC):
    """The methods of `Executable` that ask how it was compiled."""

    _session: "Session"
    _program_shape: "ProgramShape"

    @property
    @abc.abstractmethod
    def handle(self) -> int:
        """The execution handle on the wire."""

    @public
    def cost_analysis(self, *, timeout: float | None = None) -> CostAnalysis:
        """Return a static count of the program's work.

        Raises:
            UnimplementedError: The server cannot tell.
        """
        answer = self._analysis(timeout)
        done = _work(answer.done) if answer.HasField("done") else None
        return CostAnalysis(_work(answer.once), done)

    @public
    def memory_analysis(self, *, timeout: float | None = None) -> MemoryAnalysis:
        """Return the bytes that an execution takes, known before it runs.

        Raises:
            UnimplementedError: The server cannot tell.
        """
        memory = self._analysis(timeout).memory
        names = [field.name for field in dataclasses.fields(MemoryAnalysis)]
        return MemoryAnalysis(*[getattr(memory, name) for name in names])

    @public
    def explain(
        self,
        *arguments: Argument,
        profile: bool | None = None,
        passes: str = "",
        formats: Sequence[str] = ("text",),
        timeout: float | None = None,
    ) -> Explanation:
        """Compile the program once more and return the files that tell how; also measure a run.

        Args:
            arguments: The arguments of the run that is measured.
            profile: Whether to run it; by default, if there are arguments.
            passes: A regular expression: modules before and after the passes whose names it finds
                are given too, all for ".*".
            formats: The formats of modules: "text", "proto", "dot" and "html".
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The files of the compilation; see `Explanation`.

        Raises:
            InvalidArgumentError: The arguments do not fit, or a format is none of these.
            ResourceExhaustedError: The session has compiled for as long as it may.
            UnimplementedError: The server cannot tell.
        """
        unknown = [name for name in formats if name not in _FORMATS]
        if unknown:
            raise InvalidArgumentError(
                f"formats must be of {', '.join(_FORMATS)}, got {unknown[0]!r}"
            )
        self._require_capability()
        is_profiled = bool(arguments) if profile is None else profile
        parameters = self._program_shape.parameters if is_profiled else ()
        buffers = on_device(self._session, arguments, parameters, 0, timeout)
        request = extension_pb2.ExplainExecutableRequest(
            executable=xla_data_pb2.ExecutionHandle(handle=self.handle),
            formats=[_FORMATS[name] for name in formats],
            pass_pattern=passes,
            profile=is_profiled,
            arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
        )
        answer = self._session.call("ExplainExecutable", request, timeout)
        return Explanation({file.name: file.data for file in answer.files}, answer.is_cut)

    def _analysis(self, timeout: float | None) -> extension_pb2.AnalyzeExecutableResponse:
        self._require_capability()
        request = extension_pb2.AnalyzeExecutableRequest(
            executable=xla_data_pb2.ExecutionHandle(handle=self.handle)
        )
        answer: extension_pb2.AnalyzeExecutableResponse
        answer = self._session.call("AnalyzeExecutable", request, timeout)
        return answer

    def _require_capability(self) -> None:
        if extension_pb2.CAPABILITY_ANALYSIS not in self._session.transport.capabilities:
            raise UnimplementedError("a server must have CAPABILITY_ANALYSIS, got one without")


def _work(message: extension_pb2.WorkAnalysis) -> Work:
    return Work(message.operations, message.transcendentals, message.bytes)
