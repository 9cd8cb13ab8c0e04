"""The programs that rank 0 lets others load."""

import threading

import pytest

from xla_contract.errors import CancelledError, UnimplementedError, XlaError
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.compile_options import CompileOptions
from xla_server.distributed.remote_programs import RemotePrograms
from xla_server.distributed.transport.messages import Load, Unload
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.programs.compile_request import WireProgram

SHAPE = ProgramShape((), Shape.parse("f32[]"))


class Ranks:
    """Other ranks, which answer from a thread of their own, or never."""

    def __init__(self, max_count: int = 2, max_bytes: int = 1 << 20) -> None:
        self.reported: list[str] = []
        self.error: XlaError | None = None
        self.answers = True
        self.programs = RemotePrograms(self.send, max_count=max_count, max_bytes=max_bytes)

    def send(self, rank: int, message: object) -> None:
        if isinstance(message, Unload):
            self.reported.append(f"unload {message.key.decode()} {rank}")
            return
        assert isinstance(message, Load)
        key = message.program.key
        assert message.module.tobytes() == b"module"
        self.reported.append(f"load {key.decode()} {rank}")
        if self.answers:
            said = rank, key, self.error
            threading.Thread(target=self.programs.answered, args=said).start()

    def use(self, name: str, *ranks: int, size: int = 1, by: Cancellation | None = None) -> None:
        program = WireProgram(b"module", SHAPE, CompileOptions(), name.encode())
        wanted = [(rank, program, size) for rank in ranks]
        with self.programs.loaded(wanted, by or Cancellation()):
            self.reported.append("run")


def test_a_program_is_loaded_once_on_each_rank() -> None:
    ranks = Ranks()
    ranks.use("a", 1)
    ranks.use("a", 1, 2)
    assert ranks.reported == ["load a 1", "run", "load a 2", "run"]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (9, 1 << 19)])
def test_the_least_recently_used_goes(count: int, size: int) -> None:
    ranks = Ranks(max_count=count)
    ranks.use("a", 1, size=size)
    ranks.use("b", 1, size=size)
    assert ranks.reported[-1] == "unload a 1"
    ranks.use("a", 1, size=size)
    assert ranks.reported[-3:] == ["load a 1", "run", "unload b 1"]


def test_a_program_that_a_rank_refuses_is_tried_again() -> None:
    ranks = Ranks()
    ranks.error = UnimplementedError("no")
    with pytest.raises(UnimplementedError, match="no"):
        ranks.use("a", 1)
    ranks.error = None
    ranks.use("a", 1)
    assert ranks.reported == ["load a 1", "load a 1", "run"]


def test_waiting_for_a_rank_ends_with_the_call_and_with_the_rank() -> None:
    ranks = Ranks()
    ranks.answers = False
    left = Cancellation()
    left.cancel()
    with pytest.raises(CancelledError):
        ranks.use("a", 1, by=left)
    ending = threading.Thread(target=ranks.programs.fail, args=(UnimplementedError("gone"),))
    ending.start()
    with pytest.raises(UnimplementedError, match="gone"):
        ranks.use("a", 1)
    ending.join()
