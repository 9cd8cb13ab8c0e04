import pytest

from tests.processors import TARGET
from xla_contract.errors import InvalidArgumentError
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.passes.framework.fixpoint import Fixpoint, Pass, run_once
from xla_server.passes.framework.selection import PassOptions, selected
from xla_server.passes.pipeline import NEEDED, pipeline
from xla_server.passes.simplify.cse import CommonSubexpressions
from xla_server.passes.simplify.dead_code import DeadCode

TWICE = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] add(x, x)
  b = f32[4] add(x, x)
  ROOT r = f32[4] multiply(a, b)
}
"""
STEPS: tuple[Pass, ...] = (*pipeline(TARGET), DeadCode(name="loop-fusion"))


def names(options: PassOptions) -> list[str]:
    """Return the names of the passes that run, with the fixpoint's name before those inside."""

    def listed(step: Pass, outer: str = "") -> list[str]:
        if isinstance(step, Fixpoint):
            return [name for each in step.passes for name in listed(each, f"{step.name}/")]
        return [outer + step.name]

    chosen = selected(STEPS, options, NEEDED, frozenset({"loop-fusion"}))
    return [name for step in chosen for name in listed(step)]


def test_without_options_everything_runs() -> None:
    assert names(PassOptions()) == names(PassOptions(level=2))
    assert {"call-inliner", "simplification/cse", "clean-up/cse", "dce", "loop-fusion"} <= set(
        names(PassOptions())
    )


def test_level_0_leaves_what_is_needed_and_level_1_fuses_nothing() -> None:
    assert {name.rpartition("/")[2] for name in names(PassOptions(level=0))} == NEEDED
    assert names(PassOptions(level=1)) == names(PassOptions())[:-1]


def test_a_disabled_pass_runs_nowhere() -> None:
    left = names(PassOptions(frozenset({"cse", "dce"})))
    assert [name for name in names(PassOptions()) if name not in left] == [
        "simplification/cse",
        "clean-up/cse",
        "dce",
    ]


def test_a_disabled_fixpoint_takes_its_optional_passes_with_it() -> None:
    left = names(PassOptions(frozenset({"clean-up"})))
    assert [name for name in left if name.startswith("clean-up/")] == []
    assert "simplification/cse" in left


def test_fusion_stands_for_all_that_fuse() -> None:
    whole = names(PassOptions())
    assert names(PassOptions(frozenset({"fusion"}))) == whole[:-1]
    only = names(PassOptions(only=frozenset({"fusion"})))
    assert [name for name in only if name.rpartition("/")[2] not in NEEDED] == ["loop-fusion"]


def test_only_named_optional_passes_run_beside_the_needed() -> None:
    left = names(PassOptions(only=frozenset({"cse"})))
    optional = [name for name in left if name.rpartition("/")[2] not in NEEDED]
    assert optional == ["simplification/cse", "clean-up/cse"]
    whole = names(PassOptions(only=frozenset({"clean-up"})))
    assert "clean-up/algsimp" in whole
    assert "simplification/algsimp" not in whole


@pytest.mark.parametrize("name", [*sorted(NEEDED), "rematerialization"])
def test_what_cannot_be_left_out_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="xla_disable_hlo_passes must name") as caught:
        names(PassOptions(frozenset({name})))
    assert repr(name) in caught.value.message
    assert "algsimp" in caught.value.hint
    assert name not in caught.value.hint.split(", ")


def test_what_there_is_not_cannot_run_alone() -> None:
    assert names(PassOptions(only=frozenset({*NEEDED, "cse"})))
    with pytest.raises(InvalidArgumentError, match="xla_enable_hlo_passes_only must name"):
        names(PassOptions(only=frozenset({"nothing"})))


@pytest.mark.parametrize("level", [-1, 4])
def test_there_are_four_levels(level: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"from 0 to 3, got {level}"):
        names(PassOptions(level=level))


def test_a_watcher_sees_each_run_of_each_pass() -> None:
    seen: list[tuple[str, bool, int]] = []

    class Watch:
        def before_pass(self, name: str, module: HloModule) -> None:
            seen.append((name, False, len(module.entry.instructions)))

        def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
            seen.append((name, changed, len(module.entry.instructions)))

    module = parse_module(TWICE)
    steps = (Fixpoint("both", (CommonSubexpressions(), DeadCode())), DeadCode())
    assert run_once(steps, module, Watch())
    assert seen[:2] == [("cse", False, 4), ("cse", True, 3)]
    assert [name for name, _, _ in seen[::2]] == ["cse", "dce", "cse", "dce"]
    assert not any(changed for _, changed, _ in seen[2:])
