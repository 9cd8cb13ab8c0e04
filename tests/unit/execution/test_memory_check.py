import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.execution import memory_check
from xla_server.ir.importer import import_module

SUM = """
HloModule sum
ENTRY main { x = f32[] parameter(0)
  wide = f32[4096,4096] broadcast(x), dimensions={}
  more = f32[4096,4096] add(wide, wide)
  ROOT one = f32[1,1] slice(more), slice={[0:1],[0:1]} }
"""


def test_the_system_says_how_much_is_free() -> None:
    free = memory_check.free_memory()
    assert free is not None
    assert free > 0


def test_a_container_s_limit_counts(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("cgroup")
    (folder / "max").write_text("1000\n")
    (folder / "current").write_text("300\n")
    (folder / "memory.stat").write_text("anon 100\ninactive_file 50\n")
    monkeypatch.setattr(memory_check, "_CGROUPS", ((folder, "max", "current", "inactive_file"),))
    assert memory_check.free_memory() == 750
    (folder / "max").write_text("max\n")
    assert (memory_check.free_memory() or 0) > 750


def test_views_need_no_memory() -> None:
    shape = Shape.parse("f32[4096,4096]")
    assert memory_check.is_large(Opcode.ADD, shape)
    assert not memory_check.is_large(Opcode.BROADCAST, shape)
    assert not memory_check.is_large(Opcode.ADD, Shape.parse("f32[4096]"))


def test_a_program_that_needs_the_last_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(parse_hlo(SUM))
    assert evaluate(module, [np.array(2, np.float32)]) == 4
    monkeypatch.setattr(memory_check, "free_memory", lambda: memory_check.RESERVE + 2**20)
    with pytest.raises(ResourceExhaustedError, match=r"^add %more: memory must suffice"):
        evaluate(module, [np.array(2, np.float32)])
