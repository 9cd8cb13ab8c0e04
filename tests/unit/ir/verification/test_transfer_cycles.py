from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.transfer_cycles import check_transfer_cycles
from xla_server.ir.verification.verifier import verify

PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="%s"}'
START = "  start = token[] after-all()\n"


def send(channel: int, after: str, name: str = "", more: str = "") -> str:
    """A send of x and its second half."""
    name = name or f"send{channel}"
    return (
        f"  {name} = (f32[], u32[], token[]) send(x, {after}), channel_id={channel}{more}\n"
        f"  {name}-done = token[] send-done({name}), channel_id={channel}\n"
    )


def recv(channel: int, after: str, more: str = "") -> str:
    """A recv, its second half and the token behind it."""
    return (
        f"  recv{channel} = (f32[], u32[], token[]) recv({after}), channel_id={channel}{more}\n"
        f"  recv{channel}-done = (f32[], token[]) recv-done(recv{channel}), channel_id={channel}\n"
        f"  got{channel} = token[] get-tuple-element(recv{channel}-done), index=1\n"
    )


def main(*parts: str, before: str = "") -> HloModule:
    text = "".join(parts)
    tail = "  ROOT result = f32[] add(x, x) }\n"
    return import_module(
        parse_hlo(f"HloModule m\n{before}ENTRY main {{ x = f32[] parameter(0)\n{START}{text}{tail}")
    )


def ring(pairs: str, *, receives_first: bool) -> HloModule:
    """Each participant sends to one and receives from one."""
    attribute = ", " + PAIRS % pairs
    if receives_first:
        return main(recv(1, "start", attribute), send(1, "got1", more=attribute))
    return main(recv(1, "start", attribute), send(1, "start", more=attribute))


LEFT = main(recv(2, "start"), send(1, "got2"))
RIGHT = main(recv(1, "start"), send(2, "got1"))


@pytest.mark.parametrize(
    ("modules", "grid", "message"),
    [
        (
            [main(recv(1, "start"), send(1, "got1"))],
            ALONE,
            r"got send %send1 waits for recv-done %recv1-done waits for send %send1$",
        ),
        ([main(send(1, "start"), recv(1, "send1-done"))], ALONE, "waits for send-done %send1-done"),
        (
            [LEFT, RIGHT],
            DeviceGrid(1, 2),
            "recv-done %recv2-done of participant 0 waits for send %send2 of participant 1",
        ),
        ([ring("{{0,1},{1,0}}", receives_first=True)], DeviceGrid(1, 2), "of participant 1"),
        (
            [main("  c = f32[] call(x), to_apply=inner\n", before="inner { x = f32[] parameter(0)\n"
                  + START + recv(1, "start") + send(1, "got1") + "  ROOT y = f32[] add(x, x) }\n")],
            ALONE,
            "recv-done %recv1-done",
        ),
    ],
)  # fmt: skip
def test_circles_are_refused(modules: Sequence[HloModule], grid: DeviceGrid, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_transfer_cycles(modules, grid)


def looped(body: str) -> HloModule:
    before = (
        f"body {{ x = f32[] parameter(0)\n{START}{body}  ROOT y = f32[] add(x, x) }}\n"
        "condition { z = f32[] parameter(0)\n  ROOT no = pred[] constant(false) }\n"
    )
    return main("  w = f32[] while(x), condition=condition, body=body\n", before=before)


@pytest.mark.parametrize(
    ("modules", "grid"),
    [
        ([main(recv(1, "start"), send(1, "start"))], ALONE),
        # The other end is not in the program.
        ([main(recv(2, "start"), send(1, "got2"))], ALONE),
        ([LEFT, LEFT], DeviceGrid(1, 2)),
        # Participant 0 receives from none.
        ([ring("{{0,1},{1,2}}", receives_first=True)], DeviceGrid(1, 3)),
        ([ring("{{0,1},{1,0}}", receives_first=False)], DeviceGrid(1, 2)),
        # The loop may never run.
        ([looped(recv(1, "start") + send(1, "got1"))], ALONE),
        # The first send, whichever it is, may be the one that is received.
        ([main(send(1, "start", "early"), recv(1, "start"), send(1, "got1"))], ALONE),
        ([main(recv(1, "start", ", is_host_transfer=true"), send(1, "got1"))], ALONE),
    ],
)
def test_what_only_may_wait_for_ever_is_accepted(
    modules: Sequence[HloModule], grid: DeviceGrid
) -> None:
    check_transfer_cycles(modules, grid)


def test_the_verifier_looks_for_circles() -> None:
    module = main(recv(1, "start"), send(1, "got1"))
    with pytest.raises(InvalidArgumentError, match=r"^send %send1: .* in a circle"):
        verify(module)


@given(st.data())
def test_circles_are_those_of_the_graph_of_all_edges(data: st.DataObject) -> None:
    """Programs that are chains of transfers, against the transitive closure of their order."""
    count = data.draw(st.integers(1, 4))
    channels = range(1, data.draw(st.integers(1, 5)) + 1)
    ends = [(kind, channel) for channel in channels for kind in (send, recv)]
    order = data.draw(st.permutations(ends))
    chains: list[list[tuple[object, int]]] = [[] for _ in range(count)]
    for end in order:
        chains[data.draw(st.integers(0, count - 1))].append(end)
    numbers = {end: 2 * number for number, end in enumerate(ends)}
    closure = np.eye(2 * len(ends), dtype=bool) & False
    modules = []
    for chain in chains:
        text, after = "", "start"
        for kind, channel in chain:
            text += send(channel, after) if kind is send else recv(channel, after)
            after = f"send{channel}-done" if kind is send else f"got{channel}"
            closure[numbers[kind, channel], numbers[kind, channel] + 1] = True
        for (first, a), (second, b) in pairwise(chain):
            closure[numbers[first, a] + 1, numbers[second, b]] = True
        modules.append(main(text))
    for channel in channels:
        closure[numbers[recv, channel], numbers[send, channel]] = True
        closure[numbers[send, channel], numbers[recv, channel] + 1] = True
    for middle in range(len(closure)):
        closure |= np.outer(closure[:, middle], closure[middle])
    grid = DeviceGrid(1, count)
    if closure.diagonal().any():
        with pytest.raises(InvalidArgumentError):
            check_transfer_cycles(modules, grid)
    else:
        check_transfer_cycles(modules, grid)
