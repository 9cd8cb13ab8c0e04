"""print_module and parse_module against each other and against jaxlib, over every corpus."""

from collections.abc import Callable, Iterator

import pytest

from tests.corpus import hlo_programs
from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from tests.corpus.jax import programs as jax_programs
from tests.corpus.jax.vocabulary import GROUPS, Group, lowered
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module
from xla_server.ir.verification.verifier import verify


def content(module: HloModule) -> bytes:
    return fingerprint(module, module.entry_program_shape)


def check_round_trip(proto: hlo_pb2.HloModuleProto) -> None:
    module = import_module(proto)
    text = print_module(module)
    again = parse_module(text)
    assert content(again) == content(module)
    ours, theirs = again.entry_program_shape, module.entry_program_shape
    assert all(map(Shape.equal, ours.parameters, theirs.parameters))
    assert ours.result.equal(theirs.result)
    assert print_module(again) == text
    assert content(import_module(parse_hlo(text))) == content(module)


def imported(serialized: bytes) -> hlo_pb2.HloModuleProto:
    return hlo_pb2.HloModuleProto.FromString(serialized)


@pytest.mark.parametrize("name", hlo_programs.PROGRAMS)
def test_hlo_programs(name: str) -> None:
    check_round_trip(parse_hlo(hlo_programs.program(*hlo_programs.PROGRAMS[name])))


@pytest.mark.parametrize("make", jax_programs.PROGRAMS.values(), ids=jax_programs.PROGRAMS.keys())
def test_jax_programs(make: Callable[[], bytes]) -> None:
    check_round_trip(imported(make()))


@pytest.mark.parametrize("make", jax_programs.OPTIMIZED.values(), ids=jax_programs.OPTIMIZED.keys())
def test_what_xla_makes_of_them(make: Callable[[], bytes]) -> None:
    check_round_trip(imported(make()))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_the_vocabulary_of_jax(group: Callable[[], Group]) -> None:
    for _, serialized, _ in lowered(group):
        check_round_trip(imported(serialized))


def test_the_loop() -> None:
    check_round_trip(parse_hlo(VECTOR_LOOP))


DECORATED = """
HloModule decorated, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, \
buffer_donor={ (1, {}) }, entry_computation_layout={(f32[4]{0}, f32[4]{0})->f32[4]{0}}, \
frontend_attributes={fingerprint="a\\"b"}

FileNames
1 "model.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=47 end_column=50}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}


%negated (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %q = f32[4]{0} negate(%p)
}, execution_thread="side"

ENTRY %main (x: f32[4], y: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0), parameter_replication={true}, sharding={devices=[2]<=[2]}
  %y = f32[4]{0} parameter(1), sharding={mesh['a'=2,'b'=4], [{'a','b':(1)2,?}], \
replicated={'b':(2)2}}
  %s = ((f32[4]{0}), f32[4]{0}) async-start(%x), async_execution_thread="side", calls=%negated
  %d = f32[4]{0} async-done(%s)
  %e = f32[4]{0} exponential(%y), control-predecessors={%x, %d}, \
result_accuracy={tolerance={atol=0.1,rtol=1e-06,ulps=3}}, frontend_attributes={a="1",b={"c":2}}
  %c = f32[4]{0} custom-call(%e), custom_call_target="f", backend_config={"k": "}"}, \
custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, \
padding_type=PADDING_VALID, schedule=SCHEDULE_LATEST, \
output_to_operand_aliasing={{}: (0, {})}, operand_layout_constraints={f32[4]{0}}
  ROOT %t = f32[4]{0} add(%d, %c), metadata={op_type="a" op_name="b/\\"c\\"" \
source_file="model.py" source_line=3 stack_frame_id=2}, backend_config="x\\001\\377"
}
"""


def test_what_decorates_a_module_stays() -> None:
    module = parse_module(DECORATED)
    text = print_module(module)
    assert text.strip() == DECORATED.strip().replace("}\n\n\n%neg", "}\n\n%neg")
    assert module.decoration is not None
    assert len(module.decoration.schedule.sequences) == 2
    assert [f.parent_frame_id for f in module.decoration.stack_frame_index.stack_frames] == [0, 1]
    assert parse_hlo(text).input_output_alias == module.decoration.input_output_alias


def test_names_that_text_cannot_hold_are_changed() -> None:
    module = parse_module(DECORATED)
    module.entry.instructions[0].name = "a b"
    module.entry.instructions[1].name = "a_b"
    module.name = "ä:"
    again = parse_module(print_module(module))
    verify(again)
    assert [part.name for part in again.entry.parameters] == ["a_b", "a_b.1"]
    assert again.name == "__"


REPLICA_GROUPS = (
    "{}",
    "{{0,1},{2,3}}",
    "[2,2]<=[4]",
    "[2,2]<=[2,2]T(1,0)",
    "mesh['x'=2,'y'=2] {'x'}",
    "mesh['x'=2,'y'=4] {'x','y':(1)2}",
    "mesh['x'=2,'y'=2], device_ids=(0,3,1,2) {'x'}",
)


@pytest.mark.parametrize("groups", REPLICA_GROUPS)
def test_replica_groups(groups: str) -> None:
    text = hlo_programs.program(
        ["f32[4]"], f"f32[4] all-reduce(x0), replica_groups={groups}, to_apply=add"
    )
    check_round_trip(parse_hlo(text))
    module = parse_module(text)
    assert f"replica_groups={groups}" in print_module(module)
    # Other versions of XLA write a comma after a mesh.
    comma = parse_module(text.replace(" {'x'", ", {'x'"))
    assert content(comma) == content(module)


@pytest.mark.parametrize(
    ("field", "grid"),
    [
        ("replica_count=2", DeviceGrid(2, 1)),
        ("num_partitions=4", DeviceGrid(1, 4)),
        ("replica_count=2, num_partitions=4", DeviceGrid(2, 4)),
    ],
)
def test_the_grid_that_a_program_runs_on(field: str, grid: DeviceGrid) -> None:
    text = hlo_programs.program(["f32[4]"], "f32[4] negate(x0)")
    module = parse_module(text.replace("HloModule m", f"HloModule m, {field}"))
    assert module.grid == grid
    assert f", {field}\n" in print_module(module)
    assert content(parse_module(print_module(module))) == content(module)


SHARDINGS = (
    "{replicated}",
    "{maximal device=1}",
    "{manual}",
    "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
    "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}",
    "{devices=[1,2]0,1 shard_like 3}",
    "{mesh['x'=2,'y'=2], [{'x'}, {}], unreduced={'y'}}",
    "{mesh['x'=2], [{?}, {}], manual={'x'}}",
)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_shardings(sharding: str) -> None:
    text = hlo_programs.program(["f32[4,8]"], f"f32[4,8] negate(x0), sharding={sharding}")
    module = parse_module(text)
    assert f"sharding={sharding}" in print_module(module)
    decoration = module.entry.root.decoration
    assert decoration is not None
    theirs = parse_hlo(text).computations[-1].instructions[-1].sharding
    assert decoration.sharding == theirs
    # Other versions of XLA write no comma after a mesh.
    bare = parse_module(text.replace("], [", "] [")).entry.root.decoration
    assert bare is not None
    assert bare.sharding == theirs


def asynchronous() -> Iterator[tuple[str, str, str]]:
    pair = "((f32[4]), f32[4], s32[])"
    yield "negate-start(x0)", "negate-done(start)", pair
    yield 'negate-start(x0), async_execution_thread="w"', "negate-done(start)", pair
    yield 'custom-call-start(x0), custom_call_target="f"', "custom-call-done(start)", pair


@pytest.mark.parametrize(("start", "done", "shape"), list(asynchronous()))
def test_short_words_for_asynchronous_calls(start: str, done: str, shape: str) -> None:
    text = hlo_programs.program(["f32[4]"], f"f32[4] {done}", f"start = {shape} {start}")
    module = parse_module(text)
    assert [str(part.opcode) for part in module.entry.instructions[-2:]] == [
        "async-start",
        "async-done",
    ]
    assert content(parse_module(print_module(module))) == content(module)
    ours = [part.called[0].root for part in module.instructions() if part.opcode == "async-start"]
    theirs = [part for part in parse_hlo(text).computations if part.name.startswith("async")]
    assert str(ours[0].opcode) == theirs[0].instructions[-1].opcode
