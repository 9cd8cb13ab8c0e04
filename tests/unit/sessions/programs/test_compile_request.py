"""Compile requests: options, layouts, and the key of the cache."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.sessions.sample_runs import ADD, PAIR, program
from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.backends.platform import Device
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.sessions.programs.compile_request import Program, prepare_program

DEVICE = Device(0, "interpreter")
VECTOR = Shape.parse("f32[4]")
Options = xla_pb2.ExecutionOptions


def prepare(
    proto: hlo_pb2.HloModuleProto,
    options: Options,
    shapes: Sequence[Shape] | None,
    device: Device,
) -> Program:
    return prepare_program(read_compile_request(proto, options), shapes, device)


def prepared(
    *arguments: str, name: str = ADD, options: Options | None = None, device: Device = DEVICE
) -> Program:
    shapes = [Shape.parse(text) for text in arguments or ("f32[4]{0}",) * 2]
    return prepare(program(name).proto, options or Options(), shapes, device)


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
    found = prepare(matrix, options, [columns], DEVICE)
    assert found.entry.parameters == (columns,)
    assert found.entry.result == columns
    found = prepare(matrix, Options(seed=7), [Shape.parse("f32[2,2]")], DEVICE)
    assert found.entry.parameters == (Shape.parse("f32[2,2]{1,0}"),)
    assert found.entry.result == Shape.parse("f32[2,2]{1,0}")
    assert found.entry.parameter_names == tuple(matrix.host_program_shape.parameter_names)
    assert found.seed == 7
    assert found.import_module(1000).name == "matrix"
    # A shape may leave some layouts out: those are row-major.
    pair = Options(shape_with_output_layout=shape_to_proto(Shape.parse("(f32[4], f32[4]{0})")))
    assert prepared("f32[4]", name=PAIR, options=pair).entry.result == Shape.parse(
        "(f32[4]{0}, f32[4]{0})"
    )


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
    found = prepare(matrix, Options(), None, DEVICE)
    assert found.entry.parameters == (Shape.parse("f32[2,2]{0,1}"),)
    assert prepare(program(ADD).proto, Options(), None, DEVICE).entry == prepared().entry


def test_the_result_shape_must_be_that_of_the_program() -> None:
    options = Options(shape_with_output_layout=shape_to_proto(Shape.parse("f32[5]{0}")))
    with pytest.raises(
        InvalidArgumentError,
        match=r"shape_with_output_layout must be compatible .*got f32\[5\]\{0\} for f32\[4\]",
    ):
        prepared(options=options)


@pytest.mark.parametrize("name", ["num_replicas", "num_partitions"])
def test_programs_run_as_one_replica_of_one_partition(name: str) -> None:
    for count in (0, 1):
        prepared(options=Options(**{name: count}))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=f"^{name} must not be negative, got -1$"):
        prepared(options=Options(**{name: -1}))  # type: ignore[arg-type]
    with pytest.raises(UnimplementedError, match=f"one replica of one .*got {name} = 2$"):
        prepared(options=Options(**{name: 2}))  # type: ignore[arg-type]


def in_options(given: xla_data_pb2.DeviceAssignmentProto) -> Program:
    return prepared(options=Options(device_assignment=given))


def in_module(given: xla_data_pb2.DeviceAssignmentProto) -> Program:
    proto = program(ADD).proto
    proto.device_assignment.CopyFrom(given)
    return prepare(proto, Options(), [VECTOR, VECTOR], DEVICE)


@pytest.mark.parametrize(("place", "where"), [(in_options, "options'"), (in_module, "module's")])
@pytest.mark.parametrize(
    ("given", "error", "rule"),
    [
        (assignment([0], replicas=2), InvalidArgumentError, r"count 2, .*1 and ids for \[1\]"),
        (assignment([0], computations=0), InvalidArgumentError, "computation_count 0 and ids for"),
        (assignment([0, 1]), UnimplementedError, "for 2 replicas of 1 partitions"),
        (assignment([0], [1]), UnimplementedError, "for 1 replicas of 2 partitions"),
        (assignment([1]), InvalidArgumentError, "device the program runs on, got 1 for device 0"),
    ],
)
def test_a_device_assignment_names_the_one_device(
    place: Callable[[Any], Program], where: str, given: Any, error: type[XlaError], rule: str
) -> None:
    with pytest.raises(error, match=f"the {where} device_assignment .*{rule}"):
        place(given)
    for fitting in (assignment([0]), xla_data_pb2.DeviceAssignmentProto()):
        place(fitting)


def test_the_key_is_that_of_what_is_compiled() -> None:
    key = prepared().key
    assert prepared().key == key
    # Options about the device, or that repeat the signature, are no part of the key.
    same = Options(launch_id=3, device_assignment=assignment([0]))
    same.device_handles.add(handle=0, device_count=1)
    same.shape_with_output_layout.CopyFrom(shape_to_proto(Shape.parse("f32[4]{0}")))
    assert prepared(options=same).key == key
    second = Options(device_assignment=assignment([1]))
    assert prepared(options=second, device=Device(1, "interpreter")).key == key
    assert prepared("f32[4]", "f32[4]").key == key
    others = [
        prepared(options=Options(seed=1)),
        prepared(options=Options(debug_options=xla_pb2.DebugOptions(xla_hlo_profile=True))),
        prepared("f32[4]{0}", name="double"),
        prepare(program("matrix").proto, Options(), [Shape.parse("f32[2,2]{1,0}")], DEVICE),
        prepare(program("matrix").proto, Options(), [Shape.parse("f32[2,2]{0,1}")], DEVICE),
    ]
    keys = [key, *[each.key for each in others]]
    assert len(set(keys)) == len(keys)
