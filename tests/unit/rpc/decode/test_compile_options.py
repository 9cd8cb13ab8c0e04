import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_pb2
from xla_server.backends.compile_options import DEFAULTS, DumpFormat, DumpOptions, Pattern
from xla_server.passes.framework.selection import PassOptions
from xla_server.rpc.decode.compile_options import compile_options


def options(**fields: object) -> xla_pb2.ExecutionOptions:
    return xla_pb2.ExecutionOptions(debug_options=xla_pb2.DebugOptions(**fields))  # type: ignore[arg-type]


def test_absent_switches_are_defaults() -> None:
    assert compile_options(xla_pb2.ExecutionOptions()) == DEFAULTS
    assert compile_options(options(xla_gpu_ftz=True)) == DEFAULTS


def test_switches_of_passes() -> None:
    found = compile_options(
        options(
            xla_disable_hlo_passes=["cse", "dce"],
            xla_enable_hlo_passes_only=["algsimp"],
            xla_backend_optimization_level=1,
        )
    )
    assert found.passes == PassOptions(frozenset({"cse", "dce"}), frozenset({"algsimp"}), 1)


def test_where_the_level_comes_from() -> None:
    effort = xla_pb2.ExecutionOptions(optimization_level="EFFORT_O1")
    assert compile_options(effort).passes.level == 1
    effort.debug_options.xla_backend_optimization_level = 0
    assert compile_options(effort).passes.level == 0
    every = options(xla_disable_all_hlo_passes=True, xla_backend_optimization_level=3)
    assert compile_options(every).passes.level == 0
    later = xla_pb2.ExecutionOptions()
    later.optimization_level = 49  # type: ignore[assignment]
    assert compile_options(later).passes.level == 3


def test_switches_of_dumps() -> None:
    assert compile_options(options(xla_dump_to="d")).dump == DumpOptions("d")
    found = compile_options(
        options(
            xla_dump_to="d",
            xla_dump_hlo_as_dot=True,
            xla_dump_hlo_as_html=True,
            xla_dump_hlo_pass_re="^c",
            xla_dump_hlo_module_re="jit",
            xla_dump_max_hlo_modules=3,
        )
    ).dump
    assert found.formats == {DumpFormat.DOT, DumpFormat.HTML}
    assert found.max_modules == 3
    assert found.passes is not None
    assert found.passes.finds("cse")
    assert not found.passes.finds("dce")
    assert found.modules is not None
    assert found.modules.finds("a jit b")


def test_dumps_can_be_forbidden() -> None:
    assert compile_options(options(xla_dump_to="d", xla_enable_dumping=False)) == DEFAULTS
    assert compile_options(options(xla_dump_to="d", xla_enable_dumping=True)).dump.name == "d"


def test_profiles_are_asked_for() -> None:
    assert compile_options(options(xla_hlo_profile=True)).is_profiled


@pytest.mark.parametrize("expression", ["(", "a{1000}{1000}{1000}", "(?=a)"])
def test_what_is_no_regular_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="regular expression"):
        compile_options(options(xla_dump_to="d", xla_dump_hlo_pass_re=expression))


def test_no_expression_takes_long() -> None:
    """Backtracking would take longer than any test may for this one."""
    assert not Pattern("(a+)+$").finds("a" * 5000 + "!")
