"""A clock for code that takes one."""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
