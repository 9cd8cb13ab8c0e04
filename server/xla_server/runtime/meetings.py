"""The words by which participants of an execution meet in native code.

Each native meeting of a program has a record in a participant's own words: its group, and where each
member's seat and operands are. A seat is in memory that all members see. It has the stamp of
the visit to which its member has come, and whether the member sleeps. The operands of visit `stamp`
are in the first area of the member's data where the stamp is even, else in the second.

A member that has come is one visit ahead of others at most: the next visit is full only when all
have come to it, and they come when they have read what they need of this one. So two areas are enough.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

MAX_MEMBERS = 8
"""Members of the largest group that meets in native code."""

COUNT, OWN, STAMP, IS_FULL = range(4)
"""Words of a record: members of the group, 0 where the meeting is none of native code; the place of
this participant; the stamp of its next visit; and what `look` finds."""
MEMBERS = 4
MEMBER_WORDS = 3
SEAT, DATA, STRIDE = range(MEMBER_WORDS)
"""Words of each member, from MEMBERS on: the address of its seat, that of its first area, and the
bytes from there to the second."""
RECORD_WORDS = 32

SEAT_BYTES = 64
SEAT_STAMP, SEAT_SLEEPS = range(2)
"""Words of a seat: the stamp of the last visit, and 1 while the member must be woken."""

FIRST_STAMP = 1 << 40
"""Stamps of an execution begin at its number times this: memory of seats may be used again, and is
never that of a visit to come."""


class Member(NamedTuple):
    """Where a member of a group meets: addresses of its seat and first area, bytes between areas."""

    seat: int
    data: int
    stride: int


def write_record(words: Any, members: Sequence[Member], own: int, stamp: int) -> None:
    """Write the record of one meeting to RECORD_WORDS words; no members for one of the host.

    Members are in the order of the group, this participant is number `own`.
    """
    assert len(members) <= MAX_MEMBERS
    words[:MEMBERS] = len(members), own, stamp, 0
    flat = np.array(members, np.int64).reshape(-1)
    words[MEMBERS : MEMBERS + len(flat)] = flat
