"""Collectives in native code: arriving at a visit, polling for the others, reading their operands.

The layout of records and slots is in runtime/collective_records.py, which imports no compiler.
"""

from xla_server.buffers.code import BY_POSITION
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.runtime.collective_records import (
    COPIED,
    COPY,
    COUNT,
    DATA,
    GIVEN_WORDS,
    MEMBER_WORDS,
    MEMBERS,
    OF_RECORD,
    OPERAND_WORDS,
    OWN,
    POSITION,
    SLOT,
    SLOT_OPERANDS,
    SLOT_SLEEPS,
    SLOT_STAMP,
    STAMP,
    STRIDE,
    YIELDS,
)
from xla_server.runtime.native import (
    COPY_BYTES,
    callee,
    copy_bytes,
    foreign,
    pause,
    read,
    write,
)

_word = MEMORY["peek_i64"]
_set_word = MEMORY["poke_i64"]
_sched_yield = foreign("sched_yield", 0)


@callee  # type: ignore[untyped-decorator]
def wait_between_polls(record: int, left: int) -> None:
    """Wait between two polls, `left` before the last: the last YIELDS of them yield the core."""
    if left < _word(record, YIELDS):
        _sched_yield(())
    else:
        pause()


@callee  # type: ignore[untyped-decorator]
def _area(member: int, stamp: int) -> int:
    """Return the address of a visit's area, from the address of a member's words."""
    return int(_word(member, DATA) + (stamp - stamp // 2 * 2) * _word(member, STRIDE))


@callee  # type: ignore[untyped-decorator]
def arrive(record: int, words: int, slots: int, refers: int) -> int:
    """Copy the operands to the visit's area and set the slot's stamp; -1 if it was set, else 0.

    For a large operand it returns the bytes to copy, with target and source at COPY. The caller
    lets threads copy them and calls it again, for the next operand. If `refers` is 1, the addresses
    of the operands are written to the slot instead. If it is 2, the operands of the first member
    are copied to those of this one.
    """
    stamp = _word(record, STAMP)
    member = record + 8 * (MEMBERS + MEMBER_WORDS * _word(record, OWN))
    if read(_word(member, SLOT), SLOT_STAMP) == stamp:
        return -1
    area = _area(member, stamp)
    for number in range(_word(record, COPIED), _word(words, 0)):
        operand = 1 + OPERAND_WORDS * number
        source, size = _word(slots, _word(words, operand)), _word(words, operand + 1)
        if refers == 1:
            _set_word(_word(member, SLOT), SLOT_OPERANDS + number, source)
            continue
        target = area + _word(words, operand + 2)
        if refers == 2:
            first = _word(record + 8 * MEMBERS, SLOT)
            target, source = source, _word(first, SLOT_OPERANDS + number)
        if size > 2 * COPY_BYTES:
            _set_word(record, COPY, target)
            _set_word(record, COPY + 1, source)
            _set_word(record, COPIED, number + 1)
            return int(size)
        copy_bytes(target, source, size)
    _set_word(record, COPIED, 0)
    write(_word(member, SLOT), SLOT_STAMP, stamp)
    return 0


@callee  # type: ignore[untyped-decorator]
def is_full(record: int) -> int:
    """Return 1 if all members have arrived at the visit, or at the next."""
    stamp = _word(record, STAMP)
    for number in range(_word(record, COUNT)):
        slot = _word(record, MEMBERS + MEMBER_WORDS * number + SLOT)
        if read(slot, SLOT_STAMP) < stamp:
            return 0
    return 1


@callee  # type: ignore[untyped-decorator]
def has_first(record: int) -> int:
    """Return 1 if the first member has arrived at the visit."""
    first = _word(record + 8 * MEMBERS, SLOT)
    return 1 if read(first, SLOT_STAMP) >= _word(record, STAMP) else 0


@callee  # type: ignore[untyped-decorator]
def has_sleeper(record: int) -> int:
    """Return 1 if a member sleeps for this visit.

    A member that is ahead sleeps for the next one.
    """
    stamp = _word(record, STAMP)
    for number in range(_word(record, COUNT)):
        if read(_word(record, MEMBERS + MEMBER_WORDS * number + SLOT), SLOT_SLEEPS) == stamp:
            return 1
    return 0


@callee  # type: ignore[untyped-decorator]
def mark_asleep(record: int) -> int:
    """Return 1 and mark the slot as asleep; return 0, without the mark, if the visit is full.

    The member that completes the visit sets its stamp before it tests for sleepers. Here the mark
    is set before the stamps are tested, so at least one of the two sees the other. A participant
    with YIELDS sets no mark: no other wakes it.
    """
    if _word(record, YIELDS) != 0:
        return 1
    own = record + 8 * (MEMBERS + MEMBER_WORDS * _word(record, OWN))
    write(_word(own, SLOT), SLOT_SLEEPS, _word(record, STAMP))
    if is_full(record) == 0:
        return 1
    write(_word(own, SLOT), SLOT_SLEEPS, 0)
    return 0


@callee  # type: ignore[untyped-decorator]
def gather(record: int, words: int, tables: int, refers: int) -> None:
    """Write the addresses of members' operands to the tables of the kernels' arguments."""
    stamp = _word(record, STAMP)
    given = words + 8 * (1 + OPERAND_WORDS * _word(words, 0))
    for number in range(_word(given, 0)):
        entry = given + 8 * (1 + GIVEN_WORDS * number)
        member, offset, operand = _word(entry, 1), _word(entry, 2), _word(entry, 3)
        address = record + offset
        if member != OF_RECORD:
            if operand == BY_POSITION:
                operand = _word(record, POSITION)
                offset *= operand
            if member == BY_POSITION:
                member = _word(record, POSITION)
            if member < 0 or member >= _word(record, COUNT):
                member = _word(record, OWN)
            other = record + 8 * (MEMBERS + MEMBER_WORDS * member)
            address = _area(other, stamp) + offset
            if refers != 0:
                address = _word(_word(other, SLOT), SLOT_OPERANDS + operand)
        _set_word(tables, _word(entry, 0), address)


@callee  # type: ignore[untyped-decorator]
def leave(record: int) -> None:
    """Leave the visit: the next one has the next stamp."""
    _set_word(record, STAMP, _word(record, STAMP) + 1)
