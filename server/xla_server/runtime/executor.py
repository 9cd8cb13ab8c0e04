"""The executor: walks a program's code in native code, without the interpreter's lock.

Code is a table of rows of int64. Kernels are called through their addresses; while loops and
conditionals are jumps. A row for Python (feeds, registered functions of custom calls) ends the walk
with the row's number; the caller executes it and resumes at the row after it.
"""

from collections.abc import Callable

from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel import Kernels
from xla_server.runtime.collective_records import COPY as COPY_TABLE
from xla_server.runtime.collective_records import COUNT as MEMBER_COUNT
from xla_server.runtime.collective_records import OWN, RECORD_WORDS, YIELDS
from xla_server.runtime.native import COPY_BYTES, callable_at, callee, copy_bytes, cycles, write
from xla_server.runtime.native_collectives import (
    arrive,
    gather,
    has_first,
    has_sleeper,
    is_full,
    leave,
    mark_asleep,
    wait_between_polls,
)
from xla_server.runtime.rounding import flush_subnormals, restore_mode
from xla_server.runtime.threads import run_loop
from xla_server.runtime.thunk_times import mark

ROW_WORDS = 6
"""Words of a row: the operation, then up to five operands."""

END, KERNEL, COPY, JUMP, BRANCH, SWITCH, HOST, MEET = range(8)
"""Operations, with their operands, the words that follow them in a row.

- END: none.
- KERNEL: address, first of its buffers in the tables, work items, chunk.
- COPY: target slot, source slot, bytes.
- JUMP: row.
- BRANCH: slot of a PRED, row to jump to if it is false.
- SWITCH: slot of an S32, number of branches, first of their rows in the targets.
- HOST: none.
- MEET: number of the collective, its first word in the targets, address of the kernel that copies
  large operands, mode (COPIES, REFERS, LEAVES), and the row of LEAVES if only the first member
  computes the results, else 0. One without members in this run is executed as HOST. Its words
  in the targets are the number of operands and, for each, its slot, bytes and offset in an area.
  The number of kernel arguments that it sets follows. Each of these has its index in the
  tables, the member, the offset, and the number of the operand. BY_POSITION instead of a member or
  an operand is the position in the record; the offset is that of operand 1 then. OF_RECORD instead
  of a member is a word of the record, at the offset.
"""

COPIES, REFERS, LEAVES = range(3)
"""Modes of a MEET.

COPIES: copy operands to the areas. REFERS: as COPIES, but publish their addresses instead if
participants run round-robin. LEAVES, after the kernels of REFERS: wait until all members have read
the operands; a no-op unless participants run round-robin.
"""

CODE, TABLES, INDICES, COUNT, TARGETS, TASKS, TIMES, COLLECTIVES, POLLS, CYCLES, ROW = range(11)
SLOTS = 11
"""Layout of a run, a block of int64 words: a header with these indices, then its slots from index
SLOTS on. The first slot has the address of the cancellation flag.

CODE, TABLES and INDICES have the addresses of the code, of the kernels' buffer addresses, and of
the slot numbers that fill TABLES; COUNT is their number. TARGETS and TASKS are addresses. TIMES and
COLLECTIVES are those of the times of thunks and of the records of collectives, or 0. POLLS bounds
how often the slots of members are polled before a return to the host; it is negative if several
participants run round-robin in one thread. CYCLES has the cycles of the walk. ROW has the row to
begin with, which the outcome replaces.
"""

STUCK = -3
"""Outcome of a participant, one of several in a thread, that waits for others: STUCK - row."""
CANCELLED = -2
FINISHED = -1
"""Outcomes of a walk that is over. Outcomes of 0 and above are rows for the host to execute."""

_pred = MEMORY["peek_u8"]
_index = MEMORY["peek_i32"]
_word = MEMORY["peek_i64"]
_is_to_stop = MEMORY["watch_i64"]
_set_word = MEMORY["poke_i64"]


@callee  # type: ignore[untyped-decorator]
def _walk(
    code: int,
    tables: int,
    slots: int,
    targets: int,
    cancelled: int,
    tasks: int,
    times: int,
    collectives: int,
    polls: int,
    row: int,
) -> int:
    while True:
        if times != 0:
            mark(times, row)
        at = row * ROW_WORDS
        kind = _word(code, at)
        function, buffers, work_items, chunk = 0, 0, 0, 0
        if kind == KERNEL:
            if _is_to_stop(cancelled) != 0:
                return CANCELLED
            function = _word(code, at + 1)
            buffers = tables + 8 * _word(code, at + 2)
            work_items, chunk = _word(code, at + 3), _word(code, at + 4)
            row += 1
        elif kind == COPY:
            copy_bytes(
                _word(slots, _word(code, at + 1)),
                _word(slots, _word(code, at + 2)),
                _word(code, at + 3),
            )
            row += 1
        elif kind == JUMP:
            if _is_to_stop(cancelled) != 0:
                return CANCELLED
            row = _word(code, at + 1)
        elif kind == BRANCH:
            if _pred(_word(slots, _word(code, at + 1)), 0) != 0:
                row += 1
            else:
                row = _word(code, at + 2)
        elif kind == SWITCH:
            chosen = int(_index(_word(slots, _word(code, at + 1)), 0))
            count = _word(code, at + 2)
            if chosen < 0 or chosen >= count:
                chosen = count - 1
            row = _word(targets, _word(code, at + 3) + chosen)
        elif kind == MEET and _word(code, at + 4) == LEAVES and polls >= 0:
            row += 1
        elif kind == MEET and collectives != 0:
            # A kernel that saw the cancellation flag has not computed all of its results.
            if _is_to_stop(cancelled) != 0:
                return CANCELLED
            record = collectives + 8 * RECORD_WORDS * _word(code, at + 1)
            if _word(record, MEMBER_COUNT) == 0:
                return row
            words = targets + 8 * _word(code, at + 2)
            mode = _word(code, at + 4)
            refers = 1 if polls < 0 and mode == REFERS else 0
            if mode == LEAVES:
                refers = 2 if _word(record, OWN) != 0 and _word(words, 0) != 0 else 1
                if refers == 2 and has_first(record) == 0:
                    return STUCK - row
            arrived = arrive(record, words, slots, refers)
            if arrived > 0:
                function, buffers = _word(code, at + 3), record + 8 * COPY_TABLE
                work_items, chunk = arrived, COPY_BYTES
            else:
                left = polls + _word(record, YIELDS)
                while is_full(record) == 0:
                    if _is_to_stop(cancelled) != 0:
                        return CANCELLED
                    if left < 0:
                        return row if arrived == 0 else STUCK - row
                    if left == 0 and mark_asleep(record) != 0:
                        return row
                    left -= 1
                    wait_between_polls(record, left)
                if has_sleeper(record) != 0:
                    return row
                if refers != 0 and _word(code, at + 5) != 0 and _word(record, OWN) != 0:
                    leave(record)
                    return int(_word(code, at + 5))
                gather(record, words, tables, refers)
                leave(record)
                row += 1
        else:
            # A kernel that saw the cancellation flag has not computed all of its results.
            if _is_to_stop(cancelled) != 0:
                return CANCELLED
            return FINISHED if kind == END else row
        if function != 0:
            run_loop(tasks, function, buffers, work_items, chunk, cancelled)


@callee  # type: ignore[untyped-decorator]
def _resume(run: int) -> None:
    slots = run + 8 * SLOTS
    tables, indices, row = _word(run, TABLES), _word(run, INDICES), _word(run, ROW)
    if row == 0:
        _set_word(run, CYCLES, 0)
        for number in range(_word(run, COUNT)):
            _set_word(tables, number, _word(slots, _word(indices, number)))
    mode = flush_subnormals()
    begun = cycles()
    outcome = _walk(
        _word(run, CODE),
        tables,
        slots,
        _word(run, TARGETS),
        _word(slots, 0),
        _word(run, TASKS),
        _word(run, TIMES),
        _word(run, COLLECTIVES),
        _word(run, POLLS),
        row,
    )
    _set_word(run, CYCLES, _word(run, CYCLES) + cycles() - begun)
    restore_mode(mode)
    write(run, ROW, outcome)


def _run_all(runs: int, count: int) -> None:
    taken = count
    if count == 0:
        taken = 1
    moved = 1
    while moved != 0:
        moved = 0
        for number in range(taken):
            run = runs
            if count != 0:
                run = _word(runs, number)
            row = _word(run, ROW)
            if row <= STUCK:
                row = STUCK - row
                write(run, ROW, row)
            if row >= 0:
                _resume(run)
                outcome = _word(run, ROW)
                if outcome == CANCELLED:
                    return
                if count != 0 and outcome > STUCK:
                    moved = 1


def walker(kernels: Kernels) -> Callable[[int, int], None]:
    """Return the native function walk(runs, count), which writes each run's outcome to its ROW.

    With a count of 0, `runs` is the address of one run. Its outcome is FINISHED, CANCELLED if the
    cancellation flag is not 0, or the number of a row for the host. Otherwise `runs` is the address
    of the addresses of `count` runs, whose only rows for the host are collectives. They execute
    round-robin, each until it waits for others, until all have FINISHED, one is CANCELLED, or none
    can continue. A run that waits has STUCK - row then.
    """
    return callable_at(kernels.native(_run_all), 2)
