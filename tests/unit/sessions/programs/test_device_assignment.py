"""The devices of participants, and what a statement of them must be."""

import pytest

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_server.sessions.programs.device_assignment import DeviceAssignment, assigned_ordinals

PAIR = DeviceGrid(1, 2)


def stated(
    *ordinals: int, owner: str = "the options'", grid: DeviceGrid = PAIR
) -> DeviceAssignment:
    return DeviceAssignment(owner, grid, ordinals)


def test_participants_are_on_the_first_devices_unless_it_is_stated() -> None:
    assert assigned_ordinals(ALONE, [], 1) == (0,)
    assert assigned_ordinals(DeviceGrid(2, 2), [], 4) == (0, 1, 2, 3)
    assert assigned_ordinals(PAIR, [stated(3, 1)], 4) == (3, 1)
    both = [stated(3, 1), stated(3, 1, owner="the module's")]
    assert assigned_ordinals(PAIR, both, 4) == (3, 1)


def test_a_grid_has_no_more_participants_than_there_are_devices() -> None:
    rule = "^the server has 3 devices, got a program for 4: 2 replicas x 2 partitions"
    with pytest.raises(ResourceExhaustedError, match=rule):
        assigned_ordinals(DeviceGrid(2, 2), [stated(0, 1)], 3)


@pytest.mark.parametrize(
    ("assignments", "rule"),
    [
        (
            [stated(0, grid=ALONE)],
            "for the program's 1 replicas x 2 .*, got one for 1 ",
        ),
        ([stated(0, 4)], "must name devices below 4, got 4 for participant 1$"),
        ([stated(-1, 0)], "must name devices below 4, got -1 for participant 0$"),
        ([stated(2, 2)], "must name each device once, got 2 for participants 0 and 1$"),
        (
            [stated(0, 1), stated(1, 0, owner="the module's")],
            r"^the options' and the module's .* same, got devices \[0, 1\] and \[1, 0\]$",
        ),
    ],
)
def test_a_statement_names_devices_that_are_there_once_each(
    assignments: list[DeviceAssignment], rule: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rule):
        assigned_ordinals(PAIR, assignments, 4)
