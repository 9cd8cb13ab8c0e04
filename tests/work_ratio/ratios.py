"""Work that a program does for each operation that its module states."""

from xla_server.buffers.work import ProgramWork


def operations_ratio(work: ProgramWork) -> float:
    """Return how many operations are done for each that is stated."""
    return _ratio(work.done.cost.flops, work.once.cost.flops)


def transcendentals_ratio(work: ProgramWork) -> float:
    """Return how often each transcendental function that is stated is evaluated."""
    return _ratio(work.done.cost.transcendentals, work.once.cost.transcendentals)


def _ratio(done: float, once: float) -> float:
    if once == 0:
        return 1.0 if done == 0 else float("inf")
    return done / once
