"""The editor of instructions for passes."""

import pytest

from tests.unit.passes.passing import stated
from xla_server.passes.framework.editor import rearrange


def test_instructions_stand_behind_what_they_read() -> None:
    module = stated(["f32[]"], "f32[] add(a, b)", "a = f32[] negate(x0)", "b = f32[] tanh(a)")
    unused = next(i for i in module.entry.instructions if i.name == "b")
    module.entry.instructions.reverse()
    rearrange(module.entry)
    assert [i.name for i in module.entry.instructions] == ["x0", "a", "b", "result"]
    module.entry.root = unused.operands[0]
    rearrange(module.entry)
    assert [i.name for i in module.entry.instructions] == ["x0", "a"]


def test_an_instruction_that_needs_itself_is_a_mistake() -> None:
    module = stated(["f32[]"], "f32[] add(a, b)", "a = f32[] negate(x0)", "b = f32[] tanh(a)")
    first = next(i for i in module.entry.instructions if i.name == "a")
    first.operands = (next(i for i in module.entry.instructions if i.name == "b"),)
    with pytest.raises(ValueError, match=r"^%[ab] must not need its own result$"):
        rearrange(module.entry)


def test_states_of_random_numbers_come_where_they_are_needed() -> None:
    numbers = "rng-get-and-update-state(), delta=1"
    module = stated(
        ["f32[]"],
        "u64[2] add(d, b)",
        f"a = u64[2] {numbers}",
        "b = u64[2] not(a)",
        f"c = u64[2] {numbers}",
        "d = u64[2] not(c)",
        f"e = u64[2] {numbers}",
    )
    parts = {i.name: i for i in module.entry.instructions}
    module.entry.instructions = [parts[name] for name in ("x0", *"acebd", "result")]
    rearrange(module.entry)
    assert [i.name for i in module.entry.instructions] == ["x0", *"acdbe", "result"]
