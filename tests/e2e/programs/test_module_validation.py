"""Modules that name what does not exist are refused, on both platforms and with the same words."""

import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e import modules
from tests.e2e.process import Raw, refused, serving
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2

HUGE = 2**40


server = serving(platforms=("cpu", "interpreter"))


def _negated() -> hlo_pb2.HloModuleProto:
    main = modules.Computation("main", 1)
    main.add("negate", "f32[3]", [main.parameter(0, "f32[3]")])
    return modules.module(main)


@pytest.mark.parametrize(
    ("field", "entry", "words"),
    [
        ("input_output_alias", {"parameter_number": HUGE}, f"got {HUGE} in input_output_alias"),
        ("buffer_donor", {"parameter_shape_index": [HUGE] * 100}, "..."),
    ],
)
def test_an_alias_or_a_donor_must_name_what_exists(
    raw: Raw, field: str, entry: dict[str, object], words: str
) -> None:
    program = _negated()
    getattr(program, field).entries.add(**entry)
    message = refused(StatusCode.INVALID_ARGUMENT, raw.compile, program)
    assert message.startswith(f"Compile: {field} must name a pa")
    assert words in message


def test_aliases_and_donors_that_exist_are_accepted(raw: Raw) -> None:
    program = _negated()
    program.input_output_alias.entries.add(kind=hlo_pb2.MUST_ALIAS)
    program.buffer_donor.entries.add()
    assert _run(raw, program) == [-1, -2, -3]


@pytest.mark.parametrize("pair", [(0, 5), (5, 0), (3, 4)])
def test_a_permutation_to_or_from_an_absent_replica_is_refused(
    raw: Raw, pair: tuple[int, int]
) -> None:
    source, target = pair
    main = modules.Computation("main", 1)
    x = main.parameter(0, "f32[3]")
    pairs = [xla_data_pb2.SourceTarget(source=source, target=target)]
    main.add("collective-permute", "f32[3]", [x], source_target_pairs=pairs)
    message = refused(StatusCode.INVALID_ARGUMENT, _run, raw, modules.module(main))
    assert "must be distinct and from 0 to 0" in message
    assert f"got pairs {{{{{source},{target}}}}} for 1 replicas x 1 partitions" in message


def test_a_custom_call_in_a_computation_without_callers_must_be_known(raw: Raw) -> None:
    unused = modules.Computation("unused", 1)
    x = unused.parameter(0, "f32[3]")
    unused.add("custom-call", "f32[3]", [x], custom_call_target="Shardin")
    main = modules.Computation("main", 2)
    main.add("negate", "f32[3]", [main.parameter(0, "f32[3]")])
    message = refused(StatusCode.UNIMPLEMENTED, raw.compile, modules.module(unused, main))
    assert '"Shardin" is not known to this server; near it are Sharding' in message


def test_a_custom_call_with_an_unused_value_must_be_known(raw: Raw) -> None:
    main = modules.Computation("main", 1)
    x = main.parameter(0, "f32[3]")
    main.add("custom-call", "f32[3]", [x], custom_call_target="Shardin")
    main.add("negate", "f32[3]", [x])
    assert "Shardin" in refused(StatusCode.UNIMPLEMENTED, raw.compile, modules.module(main))


def _run(raw: Raw, program: hlo_pb2.HloModuleProto) -> list[float]:
    handle = raw.compile(program)
    arguments = [raw.upload(np.float32([1, 2, 3]))]
    answer = raw.Execute(xla_pb2.ExecuteRequest(handle=handle, arguments=arguments), timeout=30)
    return list(raw.download(answer.output).f32s)
