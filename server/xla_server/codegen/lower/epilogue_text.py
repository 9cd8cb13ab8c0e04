"""Epilogues as text, for kernels of convolutions that are written by hand."""

import dataclasses
from collections.abc import Sequence

from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.lower.epilogue import NO_EPILOGUE, Epilogue, EpilogueFusion, with_epilogue


@dataclasses.dataclass(frozen=True, slots=True)
class EpilogueText:
    """Parts of a kernel's text: constants before it, its first lines, the loops behind a block.

    The kernel says what is to be done by its variables first_row, last_row, first_column and
    last_column.
    """

    constants: str
    first: tuple[str, ...]
    loops: tuple[str, ...]
    work: int

    @classmethod
    def of(cls, epilogue: Epilogue) -> "EpilogueText":
        """Return the text of an epilogue."""
        text = NumbaText()
        first = text.lines(epilogue.prologue) if epilogue.prologue else []
        loops = text.lines(epilogue.loops) if epilogue.loops else []
        constants = "".join(f"{line}\n" for line in text.constants)
        first = [*text.memory(epilogue.buffers, epilogue.stack), *first]
        return cls(constants, tuple(first), tuple(loops), epilogue.work)


NO_EPILOGUE_TEXT = EpilogueText.of(NO_EPILOGUE)
"""Of a convolution that stands for itself."""


def with_epilogue_text(
    fusion: EpilogueFusion | None, values: Sequence[Value], rows: int, columns: int
) -> tuple[list[int], EpilogueText, tuple[Value, ...]]:
    """Return what `with_epilogue` does, as text."""
    places, epilogue, arguments = with_epilogue(fusion, values, rows, columns)
    return places, EpilogueText.of(epilogue), arguments
