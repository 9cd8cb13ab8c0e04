"""Plans of what libraries compute on a GPU: frozen records without a library's names in them.

A plan is the code of a thunk, as a kernel is: its buffers are the thunk's arguments, operands
first, then results, then memory that it may write to. Arrays are dense and row-major.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryPlan:
    """What a library computes: element types, sizes and forms, never addresses."""

    @property
    def text(self) -> str:
        """The plan as dumps show it."""
        return repr(self)

    @property
    def key(self) -> str:
        """Equal for equal plans alone."""
        return repr(self)
