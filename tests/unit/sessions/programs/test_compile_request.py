"""Compile requests: options, layouts, and the key of the cache."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.sessions.sample_runs import ADD, PAIR, program
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.sessions.programs.compile_request import WireProgram, prepare_program
from xla_server.sessions.programs.device_assignment import DeviceAssignment

VECTOR = Shape.parse("f32[4]")
Options = xla_pb2.ExecutionOptions


def prepare(
    proto: hlo_pb2.HloModuleProto,
    options: Options,
    shapes: Sequence[Shape] | None,
) -> WireProgram:
    return prepare_program(read_compile_request(proto, options), shapes)


def prepared(*arguments: str, name: str = ADD, options: Options | None = None) -> WireProgram:
    shapes = [Shape.parse(text) for text in arguments or ("f32[4]{0}",) * 2]
    return prepare(program(name).proto, options or Options(), shapes)


def assignment(
    *columns: list[int], replicas: int | None = None, computations: int | None = None
) -> xla_data_pb2.DeviceAssignmentProto:
    parts = [
        xla_data_pb2.DeviceAssignmentProto.ComputationDevice(replica_device_ids=column)
        for column in columns
    ]
    return xla_data_pb2.DeviceAssignmentProto(
        replica_count=len(columns[0]) if replicas is None else replicas,
        computation_count=len(columns) if computations is None else computations,
        computation_devices=parts,
    )


def test_the_layouts_are_those_asked_for_or_row_major() -> None:
    matrix = program("matrix").proto
    columns = Shape.parse("f32[2,2]{0,1}")
    options = Options(shape_with_output_layout=shape_to_proto(columns))
    found = prepare(matrix, options, [columns])
    assert found.entry.parameters == (columns,)
    assert found.entry.result == columns
    found = prepare(matrix, Options(seed=7), [Shape.parse("f32[2,2]")])
    assert found.entry.parameters == (Shape.parse("f32[2,2]{1,0}"),)
    assert found.entry.result == Shape.parse("f32[2,2]{1,0}")
    assert found.entry.parameter_names == tuple(matrix.host_program_shape.parameter_names)
    assert found.options.seed == 7
    assert found.import_module(1000).name == "matrix"
    # A shape may leave some layouts out: those are row-major.
    pair = Options(shape_with_output_layout=shape_to_proto(Shape.parse("(f32[4], f32[4]{0})")))
    assert prepared("f32[4]", name=PAIR, options=pair).entry.result == Shape.parse(
        "(f32[4]{0}, f32[4]{0})"
    )


def test_a_signature_with_fewer_parameters_than_the_program_is_refused() -> None:
    proto = program(ADD).proto
    del proto.host_program_shape.parameters[1:], proto.host_program_shape.parameter_names[1:]
    found = prepare(proto, Options(), [VECTOR])
    with pytest.raises(ShapeError, match="as many parameters as the program, got 1 and 2"):
        found.partitioned(1000, 1000)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (
            ["f32[4]{0}"],
            r"one argument per parameter, got 1 for 2 parameters of \(.*f32\[4\].*\) -> f32\[4\]",
        ),
        (["f32[4]{0}"] * 3, "got 3 for 2 parameters"),
        (
            ["f32[4]{0}", "f32[5]{0}"],
            r"^argument 1 must have the shape of its parameter, got f32\[5\]\{0\} for f32\[4\]",
        ),
        (["s32[4]{0}", "f32[4]{0}"], r"^argument 0 .*got s32\[4\]\{0\} for f32\[4\]"),
    ],
)
def test_there_is_one_argument_that_fits_per_parameter(arguments: list[str], rule: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rule):
        prepared(*arguments)


def test_without_arguments_they_are_those_that_the_program_declares() -> None:
    matrix = program("matrix").proto
    matrix.host_program_shape.parameters[0].CopyFrom(shape_to_proto(Shape.parse("f32[2,2]{0,1}")))
    found = prepare(matrix, Options(), None)
    assert found.entry.parameters == (Shape.parse("f32[2,2]{0,1}"),)
    assert prepare(program(ADD).proto, Options(), None).entry == prepared().entry


def test_the_result_shape_must_be_that_of_the_program() -> None:
    options = Options(shape_with_output_layout=shape_to_proto(Shape.parse("f32[5]{0}")))
    with pytest.raises(
        InvalidArgumentError,
        match=r"shape_with_output_layout must be compatible .*got f32\[5\]\{0\} for f32\[4\]",
    ):
        prepared(options=options)


@pytest.mark.parametrize(
    ("options", "grid"),
    [
        (Options(), DeviceGrid()),
        (Options(num_replicas=1), DeviceGrid()),
        (Options(num_replicas=3), DeviceGrid(3, 1)),
        (Options(num_replicas=2, num_partitions=4), DeviceGrid(2, 4)),
        (Options(device_assignment=assignment([0, 1, 2], [3, 4, 5])), DeviceGrid(3, 2)),
        (Options(num_partitions=2, device_assignment=assignment([5], [3])), DeviceGrid(1, 2)),
    ],
)
def test_the_grid_is_what_counts_and_assignments_say(options: Options, grid: DeviceGrid) -> None:
    found = prepared(options=options)
    assert found.grid == grid
    assert found.import_module(1000).grid == found.kept().import_module(1000).grid == grid


@pytest.mark.parametrize("name", ["num_replicas", "num_partitions"])
def test_counts_are_not_negative(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{name} must not be negative, got -1$"):
        prepared(options=Options(**{name: -1}))  # type: ignore[arg-type]


def test_an_assignment_is_by_flattened_id() -> None:
    options = Options(device_assignment=assignment([0, 1, 2], [3, 4, 5]))
    (stated,) = read_compile_request(program(ADD).proto, options).assignments
    assert stated == DeviceAssignment("the options'", DeviceGrid(3, 2), (0, 3, 1, 4, 2, 5))


@pytest.mark.parametrize("place", ["options'", "module's"])
@pytest.mark.parametrize(
    ("given", "counts", "rule"),
    [
        (assignment([0], replicas=2), {}, r"count 2, .*1 and ids for \[1\]"),
        (assignment([0], computations=0), {}, "computation_count 0 and ids for"),
        (
            assignment([0, 1]),
            {"num_replicas": 4},
            "^num_replicas must be the replica_count",
        ),
        (assignment([0, 1]), {"num_partitions": 3}, "got 3 and 1$"),
    ],
)
def test_an_assignment_agrees_with_its_counts_and_the_options(
    place: str, given: Any, counts: dict[str, int], rule: str
) -> None:
    proto, options = program(ADD).proto, Options(**counts)  # type: ignore[arg-type]
    (options if place == "options'" else proto).device_assignment.CopyFrom(given)
    with pytest.raises(InvalidArgumentError, match=rule) as caught:
        prepare(proto, options, None)
    assert f"the {place} device_assignment" in caught.value.message
    empty = xla_data_pb2.DeviceAssignmentProto()
    assert prepared(options=Options(device_assignment=empty)).grid == DeviceGrid()


def test_two_assignments_are_for_one_grid() -> None:
    proto = program(ADD).proto
    proto.device_assignment.CopyFrom(assignment([0, 1]))
    rule = "the module's and the options' device_assignment must be for the same grid, got 2 .* 1 "
    with pytest.raises(InvalidArgumentError, match=rule):
        prepare(proto, Options(device_assignment=assignment([0], [1])), None)


def test_the_key_is_that_of_what_is_compiled() -> None:
    key = prepared().key
    assert prepared().key == key
    # Options about the device, or that repeat the signature, are no part of the key.
    same = Options(launch_id=3, device_assignment=assignment([0]))
    same.device_handles.add(handle=0, device_count=1)
    same.shape_with_output_layout.CopyFrom(shape_to_proto(Shape.parse("f32[4]{0}")))
    assert prepared(options=same).key == key
    assert prepared(options=Options(device_assignment=assignment([1]))).key == key
    alone = Options(num_replicas=1, num_partitions=1)
    assert prepared(options=alone).key == key
    assert prepared("f32[4]", "f32[4]").key == key
    others = [
        prepared(options=Options(seed=1)),
        prepared(options=Options(num_replicas=2)),
        prepared(options=Options(num_partitions=2)),
        prepared(options=Options(debug_options=xla_pb2.DebugOptions(xla_hlo_profile=True))),
        prepared("f32[4]{0}", name="double"),
        prepare(program("matrix").proto, Options(), [Shape.parse("f32[2,2]{1,0}")]),
        prepare(program("matrix").proto, Options(), [Shape.parse("f32[2,2]{0,1}")]),
    ]
    keys = [key, *[each.key for each in others]]
    assert len(set(keys)) == len(keys)
