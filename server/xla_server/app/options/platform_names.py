"""The platforms that operators can choose; `app/platforms.py` makes them."""

import enum


class Platform(enum.StrEnum):
    """The names of the platforms."""

    INTERPRETER = "interpreter"
    CPU = "cpu"
    CUDA = "cuda"


DEFAULT = Platform.CPU

REFERENCE = Platform.INTERPRETER
"""The platform whose results define what operations compute."""
