"""send and recv between the participants of one program, on each platform."""

from typing import Any

import numpy as np
import pytest

from tests.corpus.grids import BACKENDS, module_of, run_per_device
from tests.corpus.hlo_programs import loop
from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    UnimplementedError,
)
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.execution.channel_protocol import MAX_ITEMS
from xla_server.ir.fingerprint import fingerprint

GRID = DeviceGrid(1, 3)
XS = [np.full(2, number, np.float32) for number in range(3)]
RING = "{{0,1},{1,2},{2,0}}"
either = pytest.mark.parametrize("platform", sorted(BACKENDS))


def attribute(pairs: str) -> str:
    return f'channel_id=5, frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}'


def passing(pairs: str, sent: str = "x", extra: str = "") -> str:
    """A program in which each participant sends its argument and gives what it receives."""
    said = attribute(pairs)
    return f"""HloModule passing
ENTRY e {{ x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), {said}
  rd = (f32[2], token[]) recv-done(r), {said}
  got = f32[2] get-tuple-element(rd), index=0
  s = (f32[2], u32[], token[]) send({sent}, t), {said}
  sd = token[] send-done(s), {said}
{extra}  ROOT result = f32[2] copy(got) }}
"""


def pipeline(count: str) -> str:
    """Return a program that adds 1 to a value and passes it on, as often as `count` says."""
    said = attribute(RING)
    lines = f"""t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), {said}
  s = (f32[2], u32[], token[]) send(v, t), {said}
  sd = token[] send-done(s), {said}
  rd = (f32[2], token[]) recv-done(r), {said}
  got = f32[2] get-tuple-element(rd), index=0
  ones = f32[2] constant({{1, 1}})
  new = f32[2] add(got, ones)"""
    before = f"p = u32[] partition-id()\n  three = u32[] constant(3)\n  count = u32[] {count}"
    return loop("f32[2]", lines, count=before)


def run(platform: str, text: str, grid: DeviceGrid = GRID) -> list[Any]:
    arguments = [[x] for x in XS[: grid.size]]
    return [result for (result,) in run_per_device(platform, module_of(text, grid), arguments)]


@either
@pytest.mark.parametrize("grid", [GRID, DeviceGrid(3, 1)], ids=["partitions", "replicas"])
def test_values_go_along_the_pairs(platform: str, grid: DeviceGrid) -> None:
    found = run(platform, passing(RING), grid)
    np.testing.assert_array_equal(found, [XS[2], XS[0], XS[1]])


@either
def test_who_is_the_target_of_none_receives_zeros(platform: str) -> None:
    found = run(platform, passing("{{0,1},{2,2}}"))
    np.testing.assert_array_equal(found, [0 * XS[0], XS[0], XS[2]])


@either
def test_a_ring_in_a_loop(platform: str) -> None:
    found = run(platform, pipeline("copy(three)"))
    np.testing.assert_array_equal(found, [x + 3 for x in XS])


@either
def test_what_is_never_sent_names_the_ended_participant(platform: str) -> None:
    with pytest.raises(
        FailedPreconditionError, match=r"^recv-done %rd\S*: .*\{\d,\d\} must arrive, got "
    ):
        run(platform, pipeline("add(p, three)"))


@either
def test_a_cycle_of_transfers_is_named_and_not_waited_for(platform: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"in a circle, .* recv-done %rd of participant"):
        run(platform, passing(RING, sent="got"))
    # In a loop, which may run or not, it is found when all wait.
    lines = pipeline("copy(three)").splitlines()
    sending = [line for line in lines if line.startswith(("  s =", "  sd ="))]
    others = [line for line in lines if line not in sending]
    after = 1 + next(number for number, line in enumerate(others) if line.startswith("  got ="))
    others[after:after] = [line.replace("send(v, t)", "send(got, t)") for line in sending]
    with pytest.raises(
        FailedPreconditionError,
        match=r"^recv-done %rd\S*: every participant of the group \{(0,1|1,2|2,0)\} must arrive, "
        r"got all participants waiting, \d at recv-done %rd",
    ):
        run(platform, "\n".join(others))


def test_what_nobody_takes_is_bounded() -> None:
    said = attribute("{{0,1}}")
    text = pipeline(f"constant({MAX_ITEMS + 1})")
    text = text.replace(attribute(RING), said)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("r =", "rd ="))]
    text = "\n".join(lines).replace("get-tuple-element(rd), index=0", "copy(v)")
    with pytest.raises(ResourceExhaustedError, match=rf"^send %s\S*: {MAX_ITEMS} values may wait"):
        run("interpreter", text)


@either
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (passing("{{0,3}}"), r"^(recv|send) %\w+: targets .*from 0 to 2, got pairs \{\{0,3\}\}"),
        (passing("{{0,1},{2,1}}"), r"^(recv|send) %\w+: targets .*must be distinct"),
        (passing("{{0,1},}"), r"must be a list of pairs, got \{\{0,1\},\}"),
        (
            passing(RING, extra="  again = (f32[2], u32[], token[]) send(x, t), channel_id=5\n"),
            r"^send %\w+: a channel must have one send and one recv, got channel 5 in %\w+, too",
        ),
    ],
)
def test_transfers_that_cannot_be_are_refused_at_compile(
    platform: str, text: str, message: str
) -> None:
    module = module_of(text, GRID)
    with pytest.raises((InvalidArgumentError, ShapeError), match=message):
        BACKENDS[platform].compile(module, module.entry_program_shape)


@either
def test_one_device_sends_to_itself_alone(platform: str) -> None:
    module = module_of(passing(RING), DeviceGrid())
    with pytest.raises(UnimplementedError, match=r"send to itself only, \{\{0,0\}\}, got pairs"):
        BACKENDS[platform].compile(module, module.entry_program_shape)


def test_pairs_are_part_of_the_fingerprint() -> None:
    modules = [module_of(passing(pairs), GRID) for pairs in (RING, "{{0,1}}", "{}")]
    assert len({fingerprint(module, module.entry_program_shape) for module in modules}) == 3
