"""Buffers of computations: aliases, readers and writes without a copy."""

from tests.unit.passes.passing import imported
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule
from xla_server.passes.scheduling.alias_analysis import Storage, storage_of


def storages(module: HloModule) -> dict[str, Storage]:
    """The storage of each computation by the first part of its name."""
    bodies = {i.called[0] for i in module.instructions() if i.opcode is Opcode.WHILE}
    known: dict[object, Storage] = {}
    for computation in module.sequential():
        known[computation] = storage_of(computation, known, is_loop_body=computation in bodies)
    return {computation.name.split(".")[0]: each for computation, each in known.items()}


def stated(*lines: str, computations: str = "") -> Storage:
    """The storage of an entry with a f32[8], b f32[8], u f32[2], i s32[]."""
    text = "\n  ".join(lines)
    module = imported(f"""HloModule m
{computations}
ENTRY main {{
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  u = f32[2] parameter(2)
  i = s32[] parameter(3)
  {text}
}}
""")
    return storages(module)["main"]


def written(storage: Storage) -> list[tuple[str, str]]:
    """The writer and the definer of what it overwrites, each by name."""
    return [(o.writer.name, o.old.definer.name) for o in storage.overwrites]


def readers(storage: Storage, name: str) -> list[str]:
    """The names of what reads the buffers that an instruction defines."""
    return [
        reader.name
        for buffer, found in storage.readers.items()
        if buffer.definer.name == name
        for reader in found
    ]


def test_a_dynamic_update_slice_overwrites_its_operand() -> None:
    storage = stated("ROOT d = f32[8] dynamic-update-slice(a, u, i)")
    assert written(storage) == [("d", "a")]
    assert [buffer.definer.name for buffer in storage.outputs] == ["d"]
    assert [buffer.byte_size for buffer in storage.inputs] == [32, 32, 8, 4]


def test_aliases_read_nothing_and_their_readers_read_the_operand() -> None:
    storage = stated(
        "r = f32[2,4] reshape(a)",
        "t = (f32[2,4], f32[8]) tuple(r, b)",
        "o = (f32[2,4], f32[8]) opt-barrier(t)",
        "g = f32[2,4] get-tuple-element(o), index=0",
        "ROOT n = f32[2,4] negate(g)",
    )
    assert readers(storage, "a") == ["n"]
    assert readers(storage, "b") == []


def test_an_update_that_is_the_operand_is_copied() -> None:
    assert not written(stated("ROOT d = f32[8] dynamic-update-slice(a, a, i)"))


SCATTER = """
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y) }
both { x0 = f32[] parameter(0)
  x1 = f32[] parameter(1)
  y0 = f32[] parameter(2)
  y1 = f32[] parameter(3)
  ROOT z = (f32[], f32[]) tuple(y0, y1) }
"""
DIMENSIONS = (
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)


def test_a_scatter_overwrites_all_its_operands() -> None:
    storage = stated(
        "j = s32[2,1] broadcast(i), dimensions={}",
        f"ROOT s = (f32[8], f32[8]) scatter(a, b, j, u, u), {DIMENSIONS}, to_apply=both",
        computations=SCATTER,
    )
    assert written(storage) == [("s", "a"), ("s", "b")]


LOOP = """
body {{
  state = (s32[], f32[8], f32[8], f32[8]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  v = f32[8] get-tuple-element(state), index=1
  w = f32[8] get-tuple-element(state), index=2
  c = f32[8] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(n, one)
  {line}
  ROOT new = (s32[], f32[8], f32[8], f32[8]) tuple(next, p, q, c)
}}
condition {{
  s = (s32[], f32[8], f32[8], f32[8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(k, limit), direction=LT
}}
"""


def loop(line: str, third: str = "b") -> dict[str, Storage]:
    begin = f"f32[8]) tuple(i, a, b, {third})"
    return storages(
        imported(f"""HloModule m
{LOOP.format(line=line)}
ENTRY main {{
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  d = f32[8] parameter(2)
  i = s32[] parameter(3)
  begin = (s32[], f32[8], f32[8], {begin}
  ROOT loop = (s32[], f32[8], f32[8], f32[8]) while(begin), condition=condition, body=body
}}
""")
    )


UPDATED = """z = s32[] constant(0)
  x = f32[1] slice(v), slice={[2:3]}
  y = f32[8] dynamic-update-slice(v, x, z)
  p = f32[8] dynamic-update-slice(y, x, n)
  q = f32[8] negate(w)"""


def test_a_loop_overwrites_what_its_body_does_not_hand_on() -> None:
    found = loop(UPDATED, "d")["main"]
    assert written(found) == [("loop", "i"), ("loop", "a"), ("loop", "b")]
    assert [buffer.definer.name for buffer in found.outputs] == ["loop"] * 3 + ["d"]


def test_what_a_loop_also_hands_on_is_copied() -> None:
    assert written(loop(UPDATED)["main"]) == [("loop", "i"), ("loop", "a")]


def test_the_first_writer_of_a_chain_overwrites_the_state() -> None:
    assert written(loop(UPDATED)["body"]) == [
        ("y", "state"),
        ("p", "y"),
        ("next", "state"),
        ("q", "state"),
    ]


def test_elements_that_are_permuted_are_overwritten_by_nothing() -> None:
    found = loop("p = f32[8] reshape(w)\n  q = f32[8] reshape(v)")["body"]
    assert written(found) == [("next", "state")]


BRANCHES = """
change {{ x = f32[8] parameter(0)
  l = s32[] constant(1)
  h = f32[2] slice(x), slice={{[0:2]}}
  ROOT y = f32[8] dynamic-update-slice(x, h, l) }}
keep {{ ROOT x = f32[8] parameter(0) }}
read {{ x = f32[8] parameter(0)
  ROOT y = f32[8] negate(x) }}
"""


def test_a_conditional_overwrites_what_a_branch_changes_or_gives_back() -> None:
    lines = "p = pred[] constant(true)", "ROOT c = f32[8] conditional(p, a, b), "
    for branches, expected in (
        ("true_computation=change, false_computation=read", [("c", "a")]),
        ("true_computation=read, false_computation=keep", [("c", "b")]),
        ("true_computation=read, false_computation=read", []),
    ):
        storage = stated(lines[0], lines[1] + branches, computations=BRANCHES.format())
        assert written(storage) == expected


def test_a_call_overwrites_what_the_computation_does_and_gives_back_its_operands() -> None:
    storage = stated("ROOT c = f32[8] call(a), to_apply=change", computations=BRANCHES.format())
    assert written(storage) == [("c", "a")]
    kept = stated("ROOT c = f32[8] call(b), to_apply=keep", computations=BRANCHES.format())
    assert kept.outputs == (kept.inputs[1],)
    assert not written(kept)


def test_computations_of_elements_are_not_sequential() -> None:
    module = imported(f"""HloModule m
{SCATTER}
ENTRY main {{
  a = f32[8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(a, zero), dimensions={{0}}, to_apply=add
}}
""")
    assert [computation.name.split(".")[0] for computation in module.sequential()] == ["main"]
