import itertools
import time

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from tests.corpus.single_op import result_of
from tests.in_threads import in_threads
from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.backends.interpreter import Interpreter
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction
from xla_server.ops.random.rng_get_and_update_state import RandomStates

STATE = Opcode.RNG_GET_AND_UPDATE_STATE
START = 0x7012395


def test_the_first_state_is_xla_s_and_the_low_half_comes_first() -> None:
    attributes = RngGetAndUpdateStateAttributes(-3)
    assert result_of(STATE, attributes=attributes).tolist() == [START, 0]


def test_an_executable_keeps_the_state_and_another_starts_anew() -> None:
    module = import_module(
        parse_hlo(program([], "u64[2] rng-get-and-update-state(), delta=-1000000000"))
    )
    platform = Interpreter()

    def runs(count: int) -> list[list[int]]:
        executable = platform.compile(module, module.entry.program_shape)
        return [
            executable.execute(
                [],
                device=platform.devices[0],
                options=ExecuteOptions(),
            )
            .output.to_literal()
            .to_numpy()
            .tolist()
            for _ in range(count)
        ]

    below_zero = (START - 10**9) % 2**64
    assert runs(2) == [[START, 0], [below_zero, 2**64 - 1]]
    assert runs(1) == [[START, 0]]


def test_a_loop_advances_the_state_in_each_iteration() -> None:
    text = """HloModule m
body { s = (s32[], u64[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  drawn = u64[2] rng-get-and-update-state(), delta=7
  ROOT r = (s32[], u64[2]) tuple(next, drawn) }
condition { t = (s32[], u64[2]) parameter(0)
  j = s32[] get-tuple-element(t), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(j, limit), direction=LT }
ENTRY main { z = s32[] constant(0)
  zeros = u64[2] constant({0, 0})
  begin = (s32[], u64[2]) tuple(z, zeros)
  loop = (s32[], u64[2]) while(begin), condition=condition, body=body
  ROOT last = u64[2] get-tuple-element(loop), index=1 }
"""
    module = import_module(parse_hlo(text))
    assert evaluate_checked(module, []).tolist() == [START + 14, 0]  # type: ignore[union-attr]


class _SlowToFind(HloInstruction):
    """Another thread has its turn each time the instruction is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return 1


def test_no_two_threads_read_the_same_state() -> None:
    states = RandomStates()
    instruction = _SlowToFind("state", 0, STATE, Shape.parse("u64[2]"))

    def read(_: int) -> list[int]:
        return [states.advance(instruction, 1) for _ in range(50)]

    assert sorted(itertools.chain(*in_threads(read, range(4)))) == list(range(START, START + 200))
